"""Run all benchmarks, one after the other, and write what they print to FIGURES.md and the docs.

``python tests/benchmarks/figures.py [--quick] [SCRIPT ...]``

Use a machine that does nothing else: it takes some hours, and minutes with ``--quick``. With names
of scripts, as ``bench_core``, it replaces their part of the file alone.
"""

import ast
import re
import subprocess
import sys
from datetime import date
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE / "FIGURES.md"
DOCS = HERE.parent.parent / "docs" / "benchmarks.md"
HEAD = """# Figures

What the scripts of this folder printed last; `figures.py` writes this page. Each part says on which
machine, on which day and at which commit. [Benchmarks](../../docs/benchmarks.md) says what
each script is for and what the figures mean.
"""


def commit_here():
    """Return the short name of the commit, and whether files differ from it."""
    git = ["git", "-C", str(HERE), "describe", "--always", "--abbrev=10", "--exclude=*", "--dirty"]
    return subprocess.check_output(git, text=True).strip()


def part_of(script, options, commit):
    """Run a script of a commit; return its part of the page, and its exit code."""
    print(f"{script.stem} ...", file=sys.stderr, flush=True)
    about = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))).splitlines()[0]
    command = [sys.executable, str(script), *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    printed = done.stdout.strip()
    if "|---|" not in printed:
        printed = f"```\n{printed}\n```"
    shown = " ".join(["python", f"tests/benchmarks/{script.name}", *options])
    where = f"`{shown}`, {date.today()}, commit {commit}:"  # noqa: DTZ011 - a reader's day
    return f"## {script.stem}\n\n{about}\n\n{where}\n\n{printed}\n", done.returncode


def with_figures(docs, page):
    """Return the docs with the figures of the page in each row that names a script.

    ``row <!-- bench_core -->`` is a row of that script; ``row / … below`` is one below it.
    """

    def filled(match):
        rows, script = match.groups()
        rest = page[page.index(f"\n## {script}\n") :]
        for row in rows.split(" / "):
            rest = rest[rest.index(f"\n| {row} |") + 1 :]
        cells = rest.splitlines()[0].strip("| ").split(" | ")
        before = cells[-2] if script == "bench_core" else ""
        return f"| {rows} <!-- {script} --> | {before} | {cells[-1]} |"

    return re.sub(r"^\| (.*) <!-- (\w+) --> \|.*$", filled, docs, flags=re.MULTILINE)


def main(arguments):
    options = [argument for argument in arguments if argument.startswith("-")]
    scripts = {path.stem: path for path in [*sorted(HERE.glob("bench_*.py")), HERE / "shapes.py"]}
    names = [argument for argument in arguments if argument not in options] or [*scripts]
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    parts = dict(re.findall(r"^(?=## (\w+)\n)(.*?\n)(?=\n## |\Z)", page, re.DOTALL | re.MULTILINE))
    # Once: the page itself changes afterwards.
    commit, failed = commit_here(), []
    for name in names:
        part, code = part_of(scripts[name], options, commit)
        if code:
            failed.append(name)
            continue
        parts[name] = part
        page = "\n".join([HEAD, *(parts[name] for name in scripts if name in parts)])
        PAGE.write_text(page, encoding="utf-8")
        docs = with_figures(DOCS.read_text(encoding="utf-8"), page)
        DOCS.write_text(docs, encoding="utf-8")
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
