"""What the benchmarks share: where they run, turns, medians, tables.

A script imports this first, for it runs where numpy and jsonschema are installed, and ends with
``print_rows(__doc__, [row, ...])``. A row is a function that yields the cells of its lines.
"""

import argparse
import gc
import json
import math
import os
import platform
import re
import subprocess
import sys
import tempfile
import venv
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
sys.path[:0] = [str(CHECKOUT), *(str(HERE.parent / room) for room in ("executors", "adapters"))]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dagprofiler-benchmarks"
QUICK = "--quick" in sys.argv


def note(text):
    print(text, file=sys.stderr, flush=True)


# -- where they run ------------------------------------------------------------------------


def install(name, *packages):
    """Return the interpreter of an environment with these packages, made at the first call."""
    folder = CACHE / f"{platform.python_implementation()}-{platform.python_version()}" / name
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not (folder / "installed").exists():
        note(f"installing {', '.join(packages)} into {folder}")
        venv.create(folder, clear=True, with_pip=True)
        pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", *packages], check=True, stdout=sys.stderr)
        (folder / "installed").touch()
    return python


def run_where_installed(name="this checkout", *packages):
    """Run this program again where its packages are installed, unless that is here."""
    packages = "numpy", "jsonschema", *packages
    if not all(map(find_spec, packages)):
        python = install(name, *packages)
        sys.exit(subprocess.run([str(python), *sys.argv], check=False).returncode)


run_where_installed()


class Process:
    """A process that calls functions of a module of this folder, one when it is asked to.

    Its dagprofiler is that of `path`.
    """

    serve = """
import importlib, json, sys
module = importlib.import_module(sys.argv[1])
for line in sys.stdin:
    name, arguments = json.loads(line)
    print(json.dumps(getattr(module, name)(**arguments)), flush=True)
"""

    def __init__(self, module, python=sys.executable, path=CHECKOUT):
        self._serve = [str(python), "-c", self.serve, module]
        bare = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        self._env = {**bare, "PYTHONPATH": str(path)}
        self._process = None

    def ask(self, function, **arguments):
        """Return what a function returns, which must be data of JSON."""
        if self._process is None:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                self._serve, cwd=HERE, env=self._env, stdin=pipe, stdout=pipe, text=True
            )
        self._process.stdin.write(json.dumps([function, arguments]) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"no answer to {function!r}, {arguments!r}")
        return json.loads(answer)

    def ask_afresh(self, function, **arguments):
        """Return what a function returns in a new process, which ends then."""
        self.end()
        try:
            return self.ask(function, **arguments)
        finally:
            self.end()

    def run(self, code):
        """Return what a new interpreter prints that runs nothing but `code`."""
        where = {"cwd": tempfile.gettempdir(), "env": self._env, "text": True}
        return subprocess.check_output([self._serve[0], "-c", code], **where)

    def end(self):
        if self._process is not None:
            self._process.communicate()
            self._process = None


# -- how they measure ----------------------------------------------------------------------


def either(full, quick):
    """Return the second with ``--quick``."""
    return quick if QUICK else full


def turns(count):
    """Return the numbers of so many turns, of a third of them with ``--quick``."""
    for number in range(either(count, max(1, count // 3))):
        note(f"  {number + 1} of {count}")
        yield number


def timed(work):
    """Return how many seconds a call takes."""
    begun = perf_counter()
    work()
    return perf_counter() - begun


def collected_and_timed(work):
    gc.collect()
    return timed(work)


def cpu_seconds(work):
    """Return the CPU time of some work, which other programs on the machine change little."""
    begun = process_time()
    result = work()
    taken = process_time() - begun
    # To let go of it is no part of the work.
    del result
    return taken


def in_turns(count, *works, seconds=collected_and_timed):
    """Return how many seconds each of several takes, one after the other and again."""
    took = [[] for _ in works]
    for _ in turns(count):
        for work, found in zip(works, took):
            found.append(seconds(work))
    return took


def exponent(sizes, costs):
    """Return the slope of log cost over log size, by least squares."""
    x, y = [math.log(size) for size in sizes], [math.log(cost) for cost in costs]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    above = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y))
    return above / sum((a - mean_x) ** 2 for a in x)


# -- what they print -----------------------------------------------------------------------


def over(above, below):
    return [a / b for a, b in zip(above, below)]


def spread(values, form="{:.2f}", unit=""):
    """Return the median of `values` in a unit, with the smallest and the largest."""
    middle, low, high = (form.format(v) for v in (median(values), min(values), max(values)))
    return f"{middle}{unit} ({low} to {high})"


def times(above, below):
    """Return the ratios of what was measured in turns."""
    return spread(over(above, below)) + " x"


def us(times_s, count):
    """Return the microseconds that one of `count` takes."""
    return f"{median(times_s) / count * 1e6:.0f}"


def print_machine(using):
    using = using or [f"numpy {version('numpy')}"]
    try:
        about = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        about = ""
    names = re.findall("model name.*: (.*)", about) or [platform.processor() or platform.machine()]
    parts = [f"Python {platform.python_version()}", *using, f"{os.cpu_count()} cores"]
    print(f"{', '.join(parts)} of {names[0]}, {platform.platform()}\n", flush=True)


def print_table(head, lines):
    print(f"| {head} |\n|{'---|' * len(head.split('|'))}")
    for line in lines:
        print(f"| {' | '.join(map(str, line))} |", flush=True)
    print()


def print_rows(about, rows, head="work | goal | measured", using=(), long=(), **options):
    """Measure the rows that the command line asks for, and print the table.

    Those in `long` have to be asked for. `options` of the command line, names and defaults, are
    keywords of every row.
    """
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller programs, fewer repetitions")
    rows = {row.__name__: row for row in rows}
    parser.add_argument("--only", action="append", choices=[*rows], metavar="ROW")
    for name, default in options.items():
        kind = {"action": "store_true"} if default is False else {"type": type(default or 1)}
        parser.add_argument(f"--{name}", default=default, **kind)
    asked = vars(parser.parse_args())
    names = asked["only"] or [name for name in rows if name not in long]

    def lines():
        for name in names:
            note(f"{name} ...")
            yield from rows[name](**{name: asked[name] for name in options})

    print_machine(using)
    print_table(head, lines())
