"""Measure how many small errors in the package the tests notice.

    python tests/mutate.py --sample 150
    python tests/mutate.py --sample 40 --only dagprofiler/tracing --jobs 2

A mutation changes one place: a comparison, ``and`` to ``or``, ``any`` to ``all``, a constant, plus
to minus, a statement that is deleted, a ``not`` that goes, a ``return`` without its value. It is
made in a copy of the project, never in the checkout. Of the default tests, those that execute its
line then run, quick ones first, until one fails. Mutations that no test fails on are printed: such
a program either does the same in other words, or a test is missing.

Which test executes which line is measured by one run of the default tests under coverage.py
(``pip install coverage``), with the programs that they start, and kept in a folder of the
temporary directory until the project changes. Lines that no default test executes are left out.

Which places are taken depends on the seed and on the text of lines and names of functions, not on
names of files: a module that moves keeps its mutations. Runs on POSIX systems.
"""
# ruff: noqa: T201  (it prints)

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import difflib
import getpass
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from importlib.util import find_spec
from itertools import islice
from operator import itemgetter
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

PACKAGE = "dagprofiler"
ROOT = Path(__file__).resolve().parent.parent
#: Names the file that tells a run of pytest what to do; this module is its plugin.
ORDERS = "DAGPROFILER_MUTATE_ORDERS"

COVERAGE = """\
[run]
core = ctrace
data_file = {folder}/data
parallel = true
include = {folder}/tree*/{package}/*
patch = fork, _exit
context = ${{PYTEST_CURRENT_TEST-}}
disable_warnings = no-data-collected
[paths]
package =
    {folder}/tree0/{package}
    {folder}/tree*/{package}
"""

PAIRS = [
    *[(ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn), (ast.And, ast.Or)],
    *[(ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Add, ast.Sub), (ast.Mult, ast.Div)],
    *[(ast.BitAnd, ast.BitOr), ("any", "all"), ("min", "max")],
]
SWAPS = {
    **{old: new for pair in PAIRS for old, new in (pair, pair[::-1])},
    **dict.fromkeys([ast.FloorDiv, ast.Mod, ast.Pow], ast.Mult),
}
#: Runs of pytest that are under way.
_running = set()
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
DELETED = (ast.Raise, ast.Delete, ast.Break, ast.Continue, ast.AugAssign)


class Mutation(NamedTuple):
    """A place in a file, and what stands there instead."""

    path: Path
    node: Any
    instead: str
    #: Where to look up which tests execute it: its own lines, those of its statement.
    lines: tuple[range, range]
    in_function: bool
    rank: str

    def applied(self, source):
        """Return the source with the error in it."""
        node, lines = self.node, source.encode().splitlines(keepends=True)
        begin = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
        end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
        text = b"".join(lines)
        return (text[:begin] + self.instead.encode() + text[end:]).decode()

    def described(self):
        """Return where it is, and the lines that differ."""
        source = (ROOT / self.path).read_text(encoding="utf-8")
        lines = difflib.ndiff(source.splitlines(), self.applied(source).splitlines())
        changed = "\n".join(f"    {line}" for line in lines if line[0] in "-+")
        return f"{self.path}:{self.node.lineno}\n{changed}"


def variants(node):
    """Return what may stand in place of a node, each with one error."""

    def but(**fields):
        variant = copy.copy(node)
        variant.__dict__.update(fields)
        return variant

    wrong = []
    operator = type(getattr(node, "op", None))
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            wrong.append(but(ops=[*node.ops[:i], SWAPS[type(op)](), *node.ops[i + 1 :]]))
    elif operator in SWAPS:
        wrong.append(but(op=SWAPS[operator]()))
    elif operator is ast.Not:
        wrong.append(node.operand)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        wrong.append(but(value=not node.value))
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        wrong.append(but(value=0 if node.value == 1 else node.value + 1))
    elif isinstance(node, ast.Name) and node.id in SWAPS:
        wrong.append(but(id=SWAPS[node.id]))
    elif isinstance(node, ast.Return) and ast.unparse(node) not in {"return", "return None"}:
        wrong.append(but(value=None))
    if isinstance(node, ast.Expr):
        deleted = isinstance(node.value, ast.Call)
    elif isinstance(node, ast.Assign):
        deleted = isinstance(node.targets[0], (ast.Attribute, ast.Subscript))
    else:
        deleted = isinstance(node, DELETED)
    return [*wrong, ast.Pass()] if deleted else wrong


def mutations(path, seed):
    """Return all mutations of a file, named as seen from the root."""
    source = (ROOT / path).read_text(encoding="utf-8")
    texts, same, places = source.split("\n"), Counter[str](), list[Mutation]()

    def walk(node, scope, statement, *, in_function):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno
            statement = range(node.lineno, max(node.lineno, last or 0) + 1)
        for variant in variants(node):
            text = ast.unparse(variant)
            instead = f"({text})" if isinstance(variant, ast.expr) else text
            key = f"{seed}|{scope}|{texts[node.lineno - 1].strip()}|{instead}"
            same[key] += 1
            rank = hashlib.sha256(f"{key}|{same[key]}".encode()).hexdigest()
            lines = range(node.lineno, node.end_lineno + 1), statement
            places.append(Mutation(path, node, instead, lines, in_function, rank))
        for field, value in ast.iter_fields(node):
            is_body = field == "body"
            inner = f"{scope}.{node.name}" if is_body and hasattr(node, "name") else scope
            inside = in_function or (is_body and isinstance(node, FUNCTIONS))
            for child in value if isinstance(value, list) else [value]:
                # Before Python 3.12, positions in f-strings are wrong.
                if (
                    isinstance(child, ast.AST)
                    and not isinstance(child, ast.JoinedStr)
                    and field not in {"annotation", "returns"}
                ):
                    walk(child, inner, statement, in_function=inside)

    walk(ast.parse(source), "", range(0), in_function=False)
    return places


class Executed:
    """Which tests execute which lines, and how long each of them takes."""

    def __init__(self, folder):
        from coverage import CoverageData

        self._tree = folder / "tree0"
        data = CoverageData(str(folder / "combined"))
        data.read()
        self._labels = lru_cache(maxsize=None)(data.contexts_by_lineno)
        self._seconds = Counter[str]()
        for test, _, seconds in json.loads((folder / "reports").read_text(encoding="utf-8")):
            self._seconds[test] += seconds

    def tests(self, mutation, most_s):
        """Return the tests that execute a place and their seconds, quick files first."""
        lines = self._labels(str(self._tree / mutation.path))
        labels = set()
        for numbers in mutation.lines:
            labels = labels or {label for line in numbers for label in lines.get(line, ())}
        if labels and not (mutation.in_function and any(labels)):
            # What runs at import matters to all that use the module.
            labels = {label for found in lines.values() for label in found}
        tests, files = set(), set()
        for label in labels:
            test, _, phase = label.rpartition(" (")
            tests.add(test)
            if phase != "call)":  # A fixture may serve all tests of its file.
                files.add(file_of(test))
        chosen, left_s, by_file = {}, most_s, Counter[str]()
        for test, seconds in sorted(self._seconds.items(), key=itemgetter(1)):
            if (test in tests or file_of(test) in files) and seconds <= left_s:
                left_s -= seconds
                chosen[test] = seconds
                by_file[file_of(test)] += seconds
        return dict(sorted(chosen.items(), key=lambda item: by_file[file_of(item[0])]))


def file_of(test):
    """Return the file that a test is in."""
    return test.partition("::")[0]


def pytest(tree, orders, *arguments, timeout=None, **env):
    """Run tests in a copy of the project.

    Returns
    -------
    tuple
        pytest's exit code, None where it takes too long; test, outcome, seconds of each phase.
    """
    with tempfile.TemporaryDirectory() as folder:
        told, reports = Path(folder, "orders"), Path(folder, "reports")
        told.write_text(json.dumps({**orders, "reports": str(reports)}), encoding="utf-8")
        plugin = tree / Path(__file__).relative_to(ROOT)
        path = os.pathsep.join([str(tree), str(plugin.parent)])
        command = [sys.executable, "-m", "pytest", "-q", "-p", plugin.stem]
        command += ["-p", "no:randomly", "-p", "no:cacheprovider", *arguments]
        command += ["-n", "0"] if find_spec("xdist") else []
        command += ["--hypothesis-seed=0"] if find_spec("hypothesis") else []
        # What Hypothesis finds with one mutation must not be tried on the next.
        shutil.rmtree(tree / ".hypothesis", ignore_errors=True)
        env = {**os.environ, ORDERS: str(told), "PYTHONPATH": path, **env}
        with open(f"{tree}.log", "w", encoding="utf-8") as log:
            how = {"cwd": tree, "env": env, "start_new_session": True}
            running = subprocess.Popen(command, stdout=log, stderr=log, **how)
            _running.add(running)
            try:
                code = running.wait(timeout)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                _kill(running)
                _running.discard(running)
        return code, json.loads(reports.read_text(encoding="utf-8")) if reports.exists() else []


def _kill(running):
    """End a run of pytest, and what it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()


def beside(jobs, function, *arguments):
    """Yield what `map` does, of so many calls at once; leave none behind."""
    pool = ThreadPoolExecutor(jobs)
    try:
        yield from pool.map(function, *arguments)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for running in [*_running]:
            _kill(running)


def copied_to(tree):
    """Copy the project; return where it is."""
    ignored = shutil.ignore_patterns(".git", ".venv", ".*cache*", ".hypothesis", "__pycache__")
    return Path(shutil.copytree(ROOT, tree, ignore=ignored))


def measured(jobs):
    """Return the folder that holds which tests execute which lines; make it if need be."""
    if find_spec("coverage") is None:
        sys.exit("mutate: it needs coverage.py: pip install coverage")
    state = hashlib.sha256()
    for path in sorted([*ROOT.glob("tests/**/*.py"), *ROOT.glob(f"{PACKAGE}/**/*.py")]):
        if path != Path(__file__):
            state.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    name = f"{PACKAGE}-mutate-{getpass.getuser()}-{state.hexdigest()[:16]}"
    folder = Path(tempfile.gettempdir(), name)
    if (folder / "reports").exists():
        return folder
    print("measuring which test executes which line", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    rc = folder / "rc"
    rc.write_text(COVERAGE.format(folder=folder, package=PACKAGE), encoding="utf-8")

    def take(share):
        tree = copied_to(folder / f"tree{share}")
        orders = {"share": [share, jobs]}
        code, reports = pytest(tree, orders, COVERAGE_PROCESS_START=str(rc))
        if code not in {0, 1}:
            sys.exit(f"mutate: the tests do not run: see {tree}.log")
        return reports

    reports = [report for reports in beside(jobs, take, range(jobs)) for report in reports]
    from coverage import Coverage

    combined = Coverage(data_file=str(folder / "combined"), config_file=str(rc))
    combined.combine([str(path) for path in folder.glob("data.*")])
    combined.save()
    (folder / "reports").write_text(json.dumps(reports), encoding="utf-8")
    return folder


class Bench:
    """Runs tests on mutations, each in one of a few copies of the project."""

    def __init__(self, folder, jobs):
        self._trees = SimpleQueue()
        for i in range(jobs):
            self._trees.put(copied_to(folder / f"tree{i}"))
        #: Whether a test that failed on a mutation passes without one.
        self._passes = {}

    def killer(self, mutation, tests):
        """Return which of the tests fails on a mutation; None for none."""
        tree, tests = self._trees.get(), dict(tests)
        path = tree / mutation.path
        source, times = path.read_bytes(), path.stat()
        try:
            while tests:
                path.write_text(mutation.applied(source.decode()), encoding="utf-8")
                # Bytecode is told by its source's time: a different one for each mutation.
                os.utime(path, (0, int(mutation.rank[:7], 16)))
                code, reports = self._pytest(tree, tests)
                path.write_bytes(source)
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
                if code in {0, 5}:
                    return None
                failed = next((test for test, outcome, _ in reports if outcome == "failed"), None)
                if failed is None:
                    return "no end" if code is None else "no start"
                if failed not in self._passes:
                    # A test may need what those before it have done.
                    file = {t: s for t, s in tests.items() if file_of(t) == file_of(failed)}
                    _, reports = self._pytest(tree, file)
                    self._passes[failed] = [failed, "failed"] not in [r[:2] for r in reports]
                if self._passes[failed]:
                    return failed
                del tests[failed]
            return None
        finally:
            self._trees.put(tree)

    def _pytest(self, tree, tests):
        files, timeout = dict.fromkeys(map(file_of, tests)), 30 + 5 * sum(tests.values())
        return pytest(tree, {"tests": list(tests)}, "-x", *files, timeout=timeout)


def main():
    """Sample, run, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sample", type=int, default=150, help="how many mutations (150)")
    parser.add_argument("--seed", type=int, default=0, help="which of them (0)")
    parser.add_argument(
        "--only", nargs="+", default=[""], help="files or folders, as dagprofiler/tracing"
    )
    parser.add_argument("--jobs", type=int, default=1, help="how many beside each other (1)")
    parser.add_argument("--seconds", type=float, default=120, help="of tests for each (120)")
    parser.add_argument("--killed", action="store_true", help="print by which test others end")
    options = parser.parse_args()
    # What it starts has sessions of its own, which neither Ctrl-C nor SIGTERM reaches.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    executed = Executed(measured(options.jobs))
    paths = [path.relative_to(ROOT) for path in sorted(ROOT.glob(f"{PACKAGE}/**/*.py"))]
    places = [
        mutation
        for path in paths
        if path.as_posix().startswith(tuple(options.only))
        for mutation in mutations(path, options.seed)
    ]
    places.sort(key=lambda mutation: mutation.rank)
    with_tests = ((place, executed.tests(place, options.seconds)) for place in places)
    sample = list(islice(filter(itemgetter(1), with_tests), options.sample))
    rates = {}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), options.jobs)
        killers = beside(options.jobs, bench.killer, *zip(*sample))
        for (mutation, _), killer in zip(sample, killers):
            rates.setdefault(mutation.path.parts[1], Counter())[killer is not None] += 1
            if killer is None:
                print("survived:", mutation.described(), flush=True)
            elif options.killed:
                print(f"killed by {killer}:", mutation.described(), flush=True)
    for room, counts in sorted(rates.items()):
        print(f"{room:24} {counts[True]:4} of {sum(counts.values()):3} killed")
    killed = sum(counts[True] for counts in rates.values())
    print(f"{'all':24} {killed:4} of {len(sample):3} killed (seed {options.seed})")


# What pytest calls, which loads this file as a plugin.

_reports = []


def _orders():
    return json.loads(Path(os.environ[ORDERS]).read_text(encoding="utf-8"))


def _enter(label):
    """Tell coverage.py, if it measures this process, on whose behalf lines are executed."""
    coverage = sys.modules.get("coverage")
    current = coverage and coverage.Coverage.current()
    if current:
        current.switch_context(label)


def pytest_configure(config):
    spec = find_spec(PACKAGE)
    if spec is None or config.rootpath.resolve() not in Path(str(spec.origin)).resolve().parents:
        sys.exit(f"{PACKAGE} would not be imported from {config.rootpath}: {spec}")
    # After coverage.py's own, by which it begins anew in the new process.
    os.register_at_fork(after_in_child=lambda: _enter(os.environ.get("PYTEST_CURRENT_TEST", "")))


def pytest_collection_modifyitems(config, items):
    orders = _orders()
    if "share" in orders:
        number, shares = orders["share"]
        files = list(dict.fromkeys(file_of(item.nodeid) for item in items))[number::shares]
        chosen = [item for item in items if file_of(item.nodeid) in files]
    else:
        by_name = {item.nodeid: item for item in items}
        chosen = [by_name[test] for test in orders["tests"] if test in by_name]
    config.hook.pytest_deselected(items=[*{*items}.difference(chosen)])
    items[:] = chosen


def pytest_runtest_setup(item):
    _enter(f"{item.nodeid} (setup)")


def pytest_runtest_call(item):
    _enter(f"{item.nodeid} (call)")


def pytest_runtest_teardown(item):
    _enter(f"{item.nodeid} (teardown)")


def pytest_runtest_logreport(report):
    _reports.append((report.nodeid, report.outcome, report.duration))


def pytest_sessionfinish():
    Path(_orders()["reports"]).write_text(json.dumps(_reports), encoding="utf-8")


if __name__ == "__main__":
    main()
