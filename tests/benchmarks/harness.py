"""What the benchmarks share: where they run, clocks, medians, tables.

A script calls ``print_rows(__doc__, ROWS)``. A row is a function that takes the options of the
command line as keywords, and yields the cells of its lines.
"""

import argparse
import gc
import math
import os
import platform
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "tests" / "executors")]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dagprofiler-benchmarks"
OURS, OLD = "this checkout", "0.1.0"
REQUIREMENTS = {OURS: ["numpy", "jsonschema"], OLD: ["numpy", "jsonschema", "dagprofiler==0.1.0"]}
NONE = "-"


def install(name):
    """Return the interpreter of an environment, made at the first call."""
    folder = CACHE / f"{platform.python_implementation()}-{platform.python_version()}" / name
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    done = folder / "installed"
    if not done.exists():
        note(f"installing {', '.join(REQUIREMENTS[name])} into {folder}")
        venv.create(folder, clear=True, with_pip=True)
        pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", *REQUIREMENTS[name]], check=True, stdout=sys.stderr)
        done.touch()
    return python


def run_where_installed(*packages):
    """Run this program again where its packages are installed, unless that is here."""
    packages = packages or (*REQUIREMENTS[OURS],)
    if not all(map(find_spec, packages)):
        name = OURS if len(packages) == 2 else packages[-1]
        REQUIREMENTS[name] = [*packages]
        again = subprocess.run([str(install(name)), *sys.argv], check=False)
        sys.exit(again.returncode)


def note(text):
    print(text, file=sys.stderr, flush=True)


def timed(work):
    """Return how many seconds a call takes."""
    begun = perf_counter()
    work()
    return perf_counter() - begun


def in_turns(rounds, *works):
    """Return how many seconds each of several takes, one after the other and again."""
    took = [[] for _ in works]
    for _ in range(rounds):
        for work, seconds in zip(works, took):
            gc.collect()
            seconds.append(timed(work))
    return took


def over(above, below):
    return [a / b for a, b in zip(above, below)]


def spread(values, form="{:.2f}"):
    """Return the median of `values` with the smallest and the largest."""
    middle, low, high = (form.format(v) for v in (median(values), min(values), max(values)))
    return f"{middle} ({low} to {high})"


def times(values):
    return spread(values) + " x"


def us(times_s, count):
    """Return the microseconds that one of `count` takes."""
    return f"{median(times_s) / count * 1e6:.0f}"


def exponent(sizes, costs):
    """Return the slope of log cost over log size, by least squares."""
    x, y = [math.log(size) for size in sizes], [math.log(cost) for cost in costs]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    above = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y))
    return above / sum((a - mean_x) ** 2 for a in x)


def processor():
    """Return the name of the processor, as well as the system knows it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def asked(about, rows=(), **options):
    """Return what the command line asks for; `options` are names and defaults."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller programs, fewer repetitions")
    if len(rows) > 1:
        parser.add_argument("--only", action="append", choices=[*rows], metavar="ROW")
    for name, default in options.items():
        kind = {"action": "store_true"} if default is False else {"type": type(default or 1)}
        parser.add_argument(f"--{name}", default=default, **kind)
    return vars(parser.parse_args())


def print_machine(*using):
    parts = [f"Python {platform.python_version()}", *using, f"{os.cpu_count()} cores"]
    print(f"{', '.join(parts)} of {processor()}, {platform.platform()}\n", flush=True)


def print_table(head, lines):
    print(f"| {head} |\n|{'---|' * len(head.split('|'))}")
    for line in lines:
        print(f"| {' | '.join(map(str, line))} |", flush=True)
    print()


def print_rows(about, rows, head="work | goal | measured", using=(), **options):
    """Measure the rows that the command line asks for, and print the table."""
    options = asked(about, rows, **options)
    names = options.pop("only", None) or [*rows]

    def lines():
        for name in names:
            note(f"{name} ...")
            yield from rows[name](**options)

    print_machine(*using)
    print_table(head, lines())
