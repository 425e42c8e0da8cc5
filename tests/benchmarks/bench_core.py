"""Measure dagprofiler's own cost against a bare loop and against the published 0.1.0.

``python tests/benchmarks/bench_core.py [--quick] [--only ROW] [--large] [--calibrate]``

Needs nothing but Python and pip: both contenders get a virtual environment of their own.
Prints a Markdown table; README.md beside this file says how to read it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
import venv
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
sys.path.insert(0, str(CHECKOUT))
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dagprofiler-benchmarks"
OURS, OLD = "this checkout", "0.1.0"
REQUIREMENTS = {OURS: ["numpy", "jsonschema"], OLD: ["numpy", "jsonschema", "dagprofiler==0.1.0"]}
NONE = "-"


class Contender:
    """A dagprofiler in an environment of its own, and a process there that times it."""

    def __init__(self, name: str, python: Path) -> None:
        self.name = name
        self.python = python
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        if name == OURS:
            self.environment["PYTHONPATH"] = str(CHECKOUT)
        self.process: subprocess.Popen[str] | None = None

    def ask(self, measurement: str, **arguments: Any) -> Any:
        """Return the result of a measurement, see contender.py."""
        if self.process is None:
            self.process = subprocess.Popen(
                [str(self.python), str(HERE / "contender.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=self.environment,
                text=True,
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([measurement, arguments]) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            self.close()
            raise RuntimeError(f"{self.name!r} gave no answer to {measurement!r}, {arguments!r}")
        return json.loads(answer)

    def ask_afresh(self, measurement: str, **arguments: Any) -> Any:
        """Return the result of a measurement in a new process."""
        self.close()
        try:
            return self.ask(measurement, **arguments)
        finally:
            self.close()

    def seconds(self, code: str) -> float:
        """Return how long a whole process takes to run `code`."""
        start = time.perf_counter()
        self.check(code)
        return time.perf_counter() - start

    def check(self, code: str) -> str:
        """Run `code` in a new process; return what it prints."""
        return subprocess.run(
            [str(self.python), "-c", code],
            env=self.environment,
            cwd=tempfile.gettempdir(),
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout

    def close(self) -> None:
        """End the process, if there is one."""
        if self.process is not None:
            self.process.communicate()
            self.process = None


def install(name: str, root: Path) -> Path:
    """Return the interpreter of a contender's environment, made at the first call."""
    folder = root / f"{platform.python_implementation()}-{platform.python_version()}" / name
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    done = folder / "installed"
    if not done.exists():
        note(f"installing {', '.join(REQUIREMENTS[name])} into {folder}")
        venv.create(folder, clear=True, with_pip=True)
        pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", *REQUIREMENTS[name]], check=True, stdout=sys.stderr)
        done.touch()
    return python


def run_where_installed(*packages: str) -> None:
    """Run this program again where its packages are installed, unless that is here."""
    packages = packages or (*REQUIREMENTS[OURS],)
    if not all(map(find_spec, packages)):
        name = OURS if len(packages) == 2 else packages[-1]
        REQUIREMENTS[name] = [*packages]
        again = subprocess.run([str(install(name, CACHE)), *sys.argv], check=False)
        sys.exit(again.returncode)


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def spread(values: Sequence[float], form: str = "{:.2f}") -> str:
    """Return the median of `values` with the smallest and the largest."""
    middle, low, high = (form.format(v) for v in (median(values), min(values), max(values)))
    return f"{middle} ({low} to {high})"


def times(values: Sequence[float]) -> str:
    return spread(values) + " x"


def ratios(samples: Sequence[Mapping[str, float]], top: str, bottom: str = "bare") -> list[float]:
    return [sample[top] / sample[bottom] for sample in samples]


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Return the slope of log cost over log size, by least squares."""
    x, y = [math.log(size) for size in sizes], [math.log(cost) for cost in costs]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    above = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y))
    return above / sum((a - mean_x) ** 2 for a in x)


class Bench:
    """The contenders, how thoroughly to measure, and the rows of the table.

    A row yields lines: work, 0.1.0's figure in the project's plan, goal, and as measured
    0.1.0 and this checkout. A line without a goal is there for information.
    """

    def __init__(self, contenders: Mapping[str, Contender], quick: bool, large: bool) -> None:
        self.contenders = contenders
        self.quick = quick
        self.large = large

    def sample(self, rounds: int, measurement: str, **arguments: Any) -> dict[str, list[Any]]:
        """Return `rounds` results for each contender, taken in turns after a warm-up."""
        samples: dict[str, list[Any]] = {name: [] for name in self.contenders}
        for number in range(rounds + 1):
            for name, contender in self.contenders.items():
                result = contender.ask(measurement, **arguments)
                if number:
                    samples[name].append(result)
        return samples

    def sample_ours(self, rounds: int, measurement: str, **arguments: Any) -> list[Any]:
        """Return `rounds` results for this checkout alone, after a warm-up."""
        ours = self.contenders[OURS]
        return [ours.ask(measurement, **arguments) for _ in range(rounds + 1)][1:]

    def run(self) -> Iterator[Sequence[str]]:
        n = 2_000 if self.quick else 10_000
        goals = {"chain": ("2.0 x", "5.0 x", NONE), "layered": ("2.2 x", "4.0 x", "2.2 x")}
        for shape, published in (("chain", "4.2 x"), ("layered", "4.3 x")):
            samples = self.sample(5 if self.quick else 15, "run", shape=shape, n=n)
            results = {name: times(ratios(s, "run")) for name, s in samples.items()}
            work, (goal, seeded, construct) = f"run {n:,} no-op tasks: {shape}", goals[shape]
            yield work, published, goal, results.get(OLD, NONE), results.get(OURS, NONE)
            if {OURS, OLD} <= samples.keys():
                pairs = zip(samples[OURS], samples[OLD])
                quotients = [ours["run"] / old["run"] for ours, old in pairs]
                yield "… against 0.1.0's time", "1", "0.6", "1", spread(quotients)
            for work, goal, what in (
                ("… with seed=42", seeded, "seeded"),
                ("… with a first look at the metrics", NONE, "read"),
                ("… constructing it alone", construct, "construct"),
            ):
                results = {name: times(ratios(s, what)) for name, s in samples.items()}
                yield work, NONE, goal, results.get(OLD, NONE), results.get(OURS, NONE)

    def fan(self) -> Iterator[Sequence[str]]:
        small, large = [3_000, 6_000, 12_000], [12_500, 25_000, 50_000, 100_000]
        rounds = 2 if self.quick else 4
        samples = {n: self.sample(rounds, "fan", n=n) for n in small}
        results = {
            name: f"{times(ratios(samples[small[-1]][name], 'run'))} at {small[-1]:,}"
            for name in self.contenders
        }
        if OLD in self.contenders:
            costs = [median(sample["run"] for sample in samples[n][OLD]) for n in small]
            results[OLD] += f", n^{exponent(small, costs):.2f}"
            if self.large:
                full = ratios([self.contenders[OLD].ask("fan", n=50_000)], "run")
                results[OLD] += f"; {full[0]:.0f} x at 50,000"
        work = "construct + run, one source to 50,000 workers to one sink"
        if OURS not in self.contenders:
            yield work, "190 x, n^2.3", "2.5 x, linear", results[OLD], NONE
            return
        runs = {n: self.sample_ours(rounds, "fan", n=n) for n in large}
        costs = [median(sample["run"] for sample in runs[n]) for n in large]
        ours = f"{times(ratios(runs[50_000], 'run'))}, n^{exponent(large, costs):.2f}"
        yield work, "190 x, n^2.3", "2.5 x, linear", results[OLD], ours
        yield "… at the size of 0.1.0's figure", NONE, NONE, NONE, results[OURS]
        yield "… with seed=42", NONE, "4.0 x", NONE, times(ratios(runs[50_000], "seeded"))
        for n in large:
            seconds = spread([sample["run"] * 1e3 for sample in runs[n]], "{:.0f}")
            ours = f"{times(ratios(runs[n], 'run'))}, {seconds} ms"
            yield f"… {n:,} workers", NONE, NONE, NONE, ours

    def array(self) -> Iterator[Sequence[str]]:
        samples = self.sample(2 if self.quick else 7, "array")
        results = {
            name: f"{times(ratios(s, 'run'))}, serializations: {self.contenders[name].ask('count')}"
            for name, s in samples.items()
        }
        work = "one 100 MB array to 16 consumers"
        published, goal = "1.72 x, 17 serializations", "1.05 x, 1 serialization"
        yield work, published, goal, results.get(OLD, NONE), results.get(OURS, NONE)

    def nocopy(self) -> Iterator[Sequence[str]]:
        samples = self.sample_ours(2 if self.quick else 7, "array", no_copy=True)
        ours = times(ratios(samples, "run"))
        yield "the same with the no-copy serializer", NONE, "0.15 x", NONE, ours

    def memory(self) -> Iterator[Sequence[str]]:
        length = 40 if self.quick else 200
        peaks = {
            name: contender.ask_afresh("memory", length=length)
            for name, contender in self.contenders.items()
        }
        results = {name: f"{peak:,.0f} MB" for name, peak in peaks.items()}
        if OURS in results:
            twice = self.contenders[OURS].ask_afresh("memory", length=2 * length)
            results[OURS] += f"; {twice:,.0f} MB at {2 * length} tasks"
        work = f"chain of {length} tasks passing 20 MB: peak memory over import"
        goal = "90 MB, flat in the length"
        yield work, "3,870 MB", goal, results.get(OLD, NONE), results.get(OURS, NONE)
        contender = next(iter(self.contenders.values()))
        bare = contender.ask_afresh("memory", length=length, bare=True)
        yield f"… the bare loop's: {bare:,.0f} MB", NONE, NONE, NONE, NONE

    def json(self) -> Iterator[Sequence[str]]:
        n = 10_000 if self.quick else 100_000
        samples = self.sample(3, "json", n=n)
        lines = (
            ("save", "4 x", "2 x", "save", "dumps"),
            ("… saved a second time", NONE, NONE, "again", "dumps"),
            ("load with validation", "3 x unvalidated", "3 x", "load", "loads"),
        )
        for what, published, goal, top, bottom in lines:
            results = {name: times(ratios(s, top, bottom)) for name, s in samples.items()}
            work = what if what.startswith("…") else f"{what}, {n:,} tasks, against json.{bottom}"
            yield work, published, goal, results.get(OLD, NONE), results.get(OURS, NONE)
        sizes = {name: f"{s[0]['mib']:.1f} MB" for name, s in samples.items()}
        work = "… the document, compact"
        yield work, NONE, "40 MB", sizes.get(OLD, NONE), sizes.get(OURS, NONE)

    def imports(self) -> Iterator[Sequence[str]]:
        codes = ("pass", "import numpy", "import dagprofiler")
        samples: dict[str, list[float]] = {name: [] for name in self.contenders}
        for number in range((5 if self.quick else 21) + 1):
            for name, contender in self.contenders.items():
                bare, numpy, ours = (contender.seconds(code) for code in codes)
                if number:
                    samples[name].append((ours - bare) / (numpy - bare))
        results = {name: times(values) for name, values in samples.items()}
        work = "`import dagprofiler` against `import numpy`, both over bare Python"
        yield work, "1.15 x", "0.6 x", results.get(OLD, NONE), results.get(OURS, NONE)
        code = "import sys, dagprofiler; print(*{'numpy', 'jsonschema'} & set(sys.modules))"
        loaded = {
            name: contender.check(code).strip() or "nothing"
            for name, contender in self.contenders.items()
        }
        work = "… loads of numpy and jsonschema"
        yield work, NONE, "nothing", loaded.get(OLD, NONE), loaded.get(OURS, NONE)

    def overhead(self) -> Iterator[Sequence[str]]:
        first = {
            name: [contender.ask_afresh("overhead") for _ in range(5 if self.quick else 15)]
            for name, contender in self.contenders.items()
        }
        later = self.sample(10 if self.quick else 50, "overhead")
        work = "time in no task and not reported as overhead, README example"
        lines = (
            (work, "11 %", "2 %", "unknown", later),
            ("… reported as overhead", NONE, NONE, "reported", later),
            ("… neither, in the first run of a process", NONE, NONE, "unknown", first),
            ("… reported, in the first run of a process", NONE, NONE, "reported", first),
        )
        for work, published, goal, share, samples in lines:
            results = {
                name: spread([round(100 * s[share], 1) + 0.0 for s in runs], "{:.1f}") + " %"
                for name, runs in samples.items()
            }
            yield work, published, goal, results.get(OLD, NONE), results.get(OURS, NONE)

    def million(self) -> Iterator[Sequence[str]]:
        sizes = [25_000, 50_000, 100_000] if self.quick else [250_000, 500_000, 1_000_000]
        goal = "done within 4 GB, linear"
        for shape, what in (("chain", "a chain"), ("sparse", "layers, 2 edges a task")):
            results = {
                n: self.contenders[OURS].ask_afresh("million", n=n, shape=shape) for n in sizes
            }
            for n, seconds in results.items():
                peak = seconds.pop("peak") / 2**10
                figures = ", ".join(f"{step} {value:.1f} s" for step, value in seconds.items())
                yield f"{n:,} no-op tasks, {what}", NONE, goal, NONE, f"{figures}; {peak:.2f} GB"
            powers = {
                step: exponent(sizes, [results[n][step] for n in sizes])
                for step in results[sizes[0]]
            }
            figures = ", ".join(f"{step} n^{power:.2f}" for step, power in powers.items())
            yield "… grows with", NONE, "n^1", NONE, figures


ROWS = ("run", "fan", "array", "nocopy", "memory", "json", "imports", "overhead", "million")


def processor() -> str:
    """Return the name of the processor, as well as the system knows it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def print_rows(
    about: str,
    rows: Mapping[str, Callable[..., Iterable[Sequence[str]]]],
    head: str = "work | goal | measured",
    using: str = "",
) -> None:
    """Measure the rows that the command line asks for, and print the table."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller programs, fewer repetitions")
    parser.add_argument("--only", action="append", choices=[*rows], metavar="ROW")
    options = parser.parse_args()
    print(
        f"Python {platform.python_version()}, {using}{os.cpu_count()} cores of {processor()}, "
        f"{platform.system()} {platform.release()}\n"
    )
    print(f"| {head} |\n|{'---|' * len(head.split('|'))}")
    for name in options.only or rows:
        note(f"{name} ...")
        for row in rows[name](quick=options.quick):
            print(f"| {' | '.join(row)} |", flush=True)


def main() -> None:
    """Measure the rows asked for and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer rounds")
    parser.add_argument("--only", choices=ROWS, action="append", help="only this row (repeatable)")
    parser.add_argument("--large", action="store_true", help="also the rows that take minutes")
    parser.add_argument("--calibrate", action="store_true", help="0.1.0 alone, to check the loop")
    parser.add_argument("--environments", type=Path, default=CACHE, help=f"default: {CACHE}")
    options = parser.parse_args()
    names = [OLD] if options.calibrate else [OURS, OLD]
    contenders = {name: Contender(name, install(name, options.environments)) for name in names}
    bench = Bench(contenders, options.quick, options.large)
    skipped = {"nocopy", "million"} if options.calibrate else set()
    if not options.large and "million" not in (options.only or ()):
        skipped.add("million")
    try:
        for name, contender in contenders.items():
            python, numpy = contender.ask("versions")
            print(f"{name}: Python {python}, numpy {numpy}")
        print(f"on {processor()}, {os.cpu_count()} cores, {platform.platform()}\n")
        print("| work | 0.1.0, published | goal | 0.1.0, measured | this checkout |")
        print("|---|---|---|---|---|", flush=True)
        for row in options.only or ROWS:
            if row not in skipped:
                note(f"measuring: {row}")
                for contender in contenders.values():
                    contender.close()
                for line in getattr(bench, row)():
                    print("| " + " | ".join(line) + " |", flush=True)
    finally:
        for contender in contenders.values():
            contender.close()


if __name__ == "__main__":
    main()
