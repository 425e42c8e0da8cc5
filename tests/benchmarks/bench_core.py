"""Measure dagprofiler's own cost against a bare loop and against the published 0.1.0.

``python tests/benchmarks/bench_core.py [--quick] [--only ROW] [--large] [--calibrate]``
"""

import json
import os
import subprocess
import tempfile
from statistics import median

from harness import (
    CHECKOUT,
    HERE,
    NONE,
    OLD,
    OURS,
    asked,
    exponent,
    install,
    note,
    over,
    print_machine,
    print_table,
    spread,
    timed,
    times,
)


class Contender:
    """A dagprofiler in an environment of its own, and a process there that times it."""

    def __init__(self, name, python):
        self.name = name
        self.python = python
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        if name == OURS:
            self.environment["PYTHONPATH"] = str(CHECKOUT)
        self.process = None

    def ask(self, measurement, **arguments):
        """Return the result of a measurement, see contender.py."""
        if self.process is None:
            self.process = subprocess.Popen(
                [str(self.python), str(HERE / "contender.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=self.environment,
                text=True,
            )
        self.process.stdin.write(json.dumps([measurement, arguments]) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            self.close()
            raise RuntimeError(f"{self.name!r} gave no answer to {measurement!r}, {arguments!r}")
        return json.loads(answer)

    def ask_afresh(self, measurement, **arguments):
        """Return the result of a measurement in a new process."""
        self.close()
        try:
            return self.ask(measurement, **arguments)
        finally:
            self.close()

    def seconds(self, code):
        """Return how long a whole process takes to run `code`."""
        return timed(lambda: self.check(code))

    def check(self, code):
        """Run `code` in a new process; return what it prints."""
        return subprocess.run(
            [str(self.python), "-c", code],
            env=self.environment,
            cwd=tempfile.gettempdir(),
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout

    def close(self):
        """End the process, if there is one."""
        if self.process is not None:
            self.process.communicate()
            self.process = None


def ratios(samples, top, bottom="bare"):
    return [sample[top] / sample[bottom] for sample in samples]


def line(work, published, goal, results):
    """Return a line: work, 0.1.0's figure in the project's plan, goal, and as measured both."""
    return work, published, goal, results.get(OLD, NONE), results.get(OURS, NONE)


class Bench:
    """The contenders, how thoroughly to measure, and the rows of the table.

    A line without a goal is there for information.
    """

    def __init__(self, contenders, quick, large):
        self.contenders = contenders
        self.quick = quick
        self.large = large

    def sample(self, rounds, measurement, **arguments):
        """Return `rounds` results for each contender, taken in turns after a warm-up."""
        samples = {name: [] for name in self.contenders}
        for number in range(rounds + 1):
            for name, contender in self.contenders.items():
                result = contender.ask(measurement, **arguments)
                if number:
                    samples[name].append(result)
        return samples

    def sample_ours(self, rounds, measurement, **arguments):
        """Return `rounds` results for this checkout alone, after a warm-up."""
        ours = self.contenders[OURS]
        return [ours.ask(measurement, **arguments) for _ in range(rounds + 1)][1:]

    def run(self):
        n = 2_000 if self.quick else 10_000
        goals = {"chain": ("2.0 x", "5.0 x", NONE), "layered": ("2.2 x", "4.0 x", "2.2 x")}
        for shape, published in (("chain", "4.2 x"), ("layered", "4.3 x")):
            samples = self.sample(5 if self.quick else 15, "run", shape=shape, n=n)
            results = {name: times(ratios(s, "run")) for name, s in samples.items()}
            work, (goal, seeded, construct) = f"run {n:,} no-op tasks: {shape}", goals[shape]
            yield line(work, published, goal, results)
            if {OURS, OLD} <= samples.keys():
                runs = ([sample["run"] for sample in samples[name]] for name in (OURS, OLD))
                yield "… against 0.1.0's time", "1", "0.6", "1", spread(over(*runs))
            for work, goal, what in (
                ("… with seed=42", seeded, "seeded"),
                ("… with a first look at the metrics", NONE, "read"),
                ("… constructing it alone", construct, "construct"),
            ):
                results = {name: times(ratios(s, what)) for name, s in samples.items()}
                yield line(work, NONE, goal, results)

    def fan(self):
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
            yield line(work, "190 x, n^2.3", "2.5 x, linear", results)
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

    def array(self):
        samples = self.sample(2 if self.quick else 7, "array")
        results = {
            name: f"{times(ratios(s, 'run'))}, serializations: {self.contenders[name].ask('count')}"
            for name, s in samples.items()
        }
        goals = "1.72 x, 17 serializations", "1.05 x, 1 serialization"
        yield line("one 100 MB array to 16 consumers", *goals, results)

    def nocopy(self):
        samples = self.sample_ours(2 if self.quick else 7, "array", no_copy=True)
        ours = times(ratios(samples, "run"))
        yield "the same with the no-copy serializer", NONE, "0.15 x", NONE, ours

    def memory(self):
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
        yield line(work, "3,870 MB", "90 MB, flat in the length", results)
        contender = next(iter(self.contenders.values()))
        bare = contender.ask_afresh("memory", length=length, bare=True)
        yield f"… the bare loop's: {bare:,.0f} MB", NONE, NONE, NONE, NONE

    def json(self):
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
            yield line(work, published, goal, results)
        sizes = {name: f"{s[0]['mib']:.1f} MB" for name, s in samples.items()}
        yield line("… the document, compact", NONE, "40 MB", sizes)

    def imports(self):
        codes = ("pass", "import numpy", "import dagprofiler")
        samples = {name: [] for name in self.contenders}
        for number in range((5 if self.quick else 21) + 1):
            for name, contender in self.contenders.items():
                bare, numpy, ours = (contender.seconds(code) for code in codes)
                if number:
                    samples[name].append((ours - bare) / (numpy - bare))
        results = {name: times(values) for name, values in samples.items()}
        work = "`import dagprofiler` against `import numpy`, both over bare Python"
        yield line(work, "1.15 x", "0.6 x", results)
        code = "import sys, dagprofiler; print(*{'numpy', 'jsonschema'} & set(sys.modules))"
        loaded = {
            name: contender.check(code).strip() or "nothing"
            for name, contender in self.contenders.items()
        }
        yield line("… loads of numpy and jsonschema", NONE, "nothing", loaded)

    def overhead(self):
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
            yield line(work, published, goal, results)

    def million(self):
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


def lines(bench, rows):
    for row in rows:
        note(f"measuring: {row}")
        for contender in bench.contenders.values():
            contender.close()
        yield from getattr(bench, row)()


def main():
    """Measure the rows asked for and print the table."""
    options = asked(__doc__, ROWS, large=False, calibrate=False)
    contenders = {
        name: Contender(name, install(name))
        for name in ([OLD] if options["calibrate"] else [OURS, OLD])
    }
    rows = [*(options["only"] or ROWS)]
    if options["calibrate"]:
        rows = [row for row in rows if row not in ("nocopy", "million")]
    elif not (options["large"] or options["only"]):
        rows.remove("million")
    try:
        for name, contender in contenders.items():
            python, numpy = contender.ask("versions")
            print(f"{name}: Python {python}, numpy {numpy}")
        print_machine()
        head = "work | 0.1.0, published | goal | 0.1.0, measured | this checkout"
        print_table(head, lines(Bench(contenders, options["quick"], options["large"]), rows))
    finally:
        for contender in contenders.values():
            contender.close()


if __name__ == "__main__":
    main()
