"""Whatever is done to the records of a journal: it is resumed correctly, or refused."""

from __future__ import annotations

import copy
import json
import random
import warnings

import pytest
from journal_files import chained, copied, parsed, rewrite

from dagprofiler import DAG, Config, Journal, JournalError, Profile, Rounds, Task, Tracer
from dagprofiler.rules import map_over, reduce
from dagprofiler.tracing import span


class Source(Task):
    outputs = ["numbers", "name"]

    def compute(self, cfg, more):
        with span("count", n=cfg.n):
            return {"numbers": list(range(cfg.n + more)), "name": "source"}


class Double(Task):
    inputs = ["number"]
    outputs = ["double"]

    def compute(self, number):
        return {"double": number * 2}


class Total(Task):
    inputs = ["double"]
    gathers = ["double"]
    outputs = ["total"]

    def compute(self, double):
        return {"total": double}


GROWS = [
    map_over("source", "numbers", Double, name="double", into="number"),
    reduce("double", Total, name="total"),
]


def fixed():
    edges = [("source", "double", {"numbers": "number"}), ("double", "total")]
    return DAG({"source": Source, "double": Double, "total": Total}, edges, Config(n=2))


def growing():
    return DAG({"source": Source}, config=Config(n=2), rules=GROWS)


#: A program, and what it is asked for.
PROGRAMS = {
    "plain": (fixed, {}),
    "rounds": (
        fixed,
        {
            "rounds": Rounds(2, warmup=1, collect_garbage=None, check_outputs=True),
            "meters": "full",
            "keep": ["source"],
        },
    ),
    "grown": (growing, {"meters": "cpu"}),
}


@pytest.fixture(scope="module")
def journals(tmp_path_factory):
    """Three journals of each program: complete, resumed and complete, and half done."""
    made = {}
    for name, (program, asked) in PROGRAMS.items():
        directory = tmp_path_factory.mktemp(name) / "complete"
        hooks = [Journal(directory), Tracer()]
        given = {"inputs": {"source": {"more": 1}}, "seed": 1, "hooks": hooks, **asked}
        first = program().run(**given)
        lines = (directory / "journal").read_bytes().splitlines(keepends=True)
        half = copied(directory, directory.parent / "half")
        (half / "journal").write_bytes(b"".join(lines[: len(lines) // 2]))
        resumed = copied(half, half.parent / "resumed")
        program().resume(resumed)
        made[name] = first.final_outputs, [directory, half, resumed]
    return made


def truncate(chance, lines):
    text = b"".join(lines)
    return [text[: chance.randrange(len(text))]]


def flip(chance, lines):
    text = bytearray(b"".join(lines))
    text[chance.randrange(len(text))] ^= 1 << chance.randrange(8)
    return [bytes(text)]


def drop_one(chance, lines):
    place = chance.randrange(len(lines))
    return lines[:place] + lines[place + 1 :]


def repeat_one(chance, lines):
    lines.insert(chance.randrange(len(lines) + 1), chance.choice(lines))
    return lines


def swap_two(chance, lines):
    a, b = chance.sample(range(len(lines)), 2)
    lines[a], lines[b] = lines[b], lines[a]
    return lines


def rewritten(change):
    def mutate(chance, lines):
        records = change(chance, [json.loads(line[9:]) for line in lines])
        return chained(records, numbered=isinstance(records[0], dict) and chance.random() < 0.9)

    mutate.__name__ = f"{change.__name__} rewritten"
    return mutate


def edit(chance, records):
    """Put something else into one place."""
    holder, key = chance.choice(list(places(records)))
    holder[key] = chance.choice(
        [
            *(None, True, False, -1, 0, 2**70, 0.5, -0.5, 1e300, float("nan"), float("inf")),
            *("", "x", "../x", "\0", "\ud800", "1970-01-01", [], {}, [None], {"x": 1}, [[0.5]]),
            copy.deepcopy(chance.choice(list(places(records)))[0]),
        ]
    )
    return records


def drop_key(chance, records):
    holder, key = chance.choice(list(places(records)))
    del holder[key]
    return records or [None]


def exchange(chance, records):
    """Exchange what stands in two places."""
    (a, i), (b, k) = chance.choices(list(places(records)), k=2)
    a[i], b[k] = copy.deepcopy(b[k]), copy.deepcopy(a[i])
    return records


def places(value):
    """Yield each list and dict with each index or key that it has."""
    if isinstance(value, (list, dict)):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            # It would start so many processes.
            if key != "busy_cores":
                yield value, key
                yield from places(value[key])


MUTATIONS = [
    *(truncate, flip, drop_one, repeat_one, swap_two),
    *map(rewritten, (drop_one, repeat_one, swap_two, edit, edit, edit, drop_key, exchange)),
]


def try_mutations(journals, numbers):
    refused = 0
    for number in numbers:
        chance = random.Random(number)
        name = chance.choice([*PROGRAMS])
        expected, directories = journals[name]
        directory = copied(chance.choice(directories), directories[0].parent / "mutated")
        path = directory / "journal"
        mutate = chance.choice(MUTATIONS)
        path.write_bytes(b"".join(mutate(chance, path.read_bytes().splitlines(keepends=True))))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                profile = PROGRAMS[name][0]().resume(directory)
            assert Profile.loads(profile.dumps()) == profile
            assert profile.final_outputs == expected
        except JournalError:
            refused += 1
        except BaseException as error:
            raise AssertionError(f"mutation {number} of {name}: {mutate.__name__}") from error
    return refused


def test_a_task_that_a_rule_added_says_when(journals):
    directory = copied(journals["grown"][1][0], journals["grown"][1][0].parent / "mutated")
    kept = parsed(directory)
    kept[2]["added_ms"] = None
    rewrite(directory, kept)
    with pytest.raises(JournalError, match=r"line 3: .*'double\[0\]', and no rule added it"):
        growing().resume(directory)


def test_40_mutated_journals_are_resumed_or_refused(journals):
    assert 20 <= try_mutations(journals, range(40)) < 40


@pytest.mark.slow
def test_400_mutated_journals_are_resumed_or_refused(journals):
    assert 200 <= try_mutations(journals, range(40, 440)) < 400
