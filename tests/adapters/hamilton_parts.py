"""Functions of Hamilton that run several times, also in other processes."""

from hamilton.htypes import Collect, Parallelizable


def part(rows: int) -> Parallelizable[int]:
    yield from range(rows)


def same(part: int) -> int:
    return part


def parts(same: Collect[int]) -> int:
    return sum(same)
