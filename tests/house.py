"""The figures of the house: ``python tests/house.py`` prints them, and fails where one is passed.

A figure that has to grow is changed here, in the commit that says why. Needs Python 3.11.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from operator import ne
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "dagprofiler"

#: Text of guards and of dense code, its pattern, and how often it may stand in the package.
GUARDS_AND_TRICKS = {
    "except Exception": (r"except Exception", 20),
    "except BaseException": (r"except BaseException", 12),
    "map(": (r"(?<!\.)\bmap\(", 32),
    "noqa": (r"noqa", 44),
    "short_repr(": (r"\bshort_repr\(", 100),
    "Any": (r"\bAny\b", 590),
}

LIMITS = {
    "files in the package's root": 12,
    "packages": 17,
    "modules": 110,
    "most modules in a package": 12,
    "floors": 12,
    "imports that run upward": 0,
    "modules in import circles": 0,
    "private modules that another package imports": 0,
    "class names that exist twice": 0,
    "lines of code": 19_400,
    "lines of tests": 25_400,
    "parameters of Run": 3,
    "attributes of Run": 12,
    "methods of Run": 15,
    "modules below 40 lines that are no faces": 0,
    "files that a plain serial run crosses": 8,
    "modules that importing the package loads": 30,
    "switches of file in a plain serial run": 25,
    "longest function, in lines of code": 110,
    "functions over 50 lines of code": 2,
    "most fields of a class": 15,
    **{f"uses of {text}": most for text, (_, most) in GUARDS_AND_TRICKS.items()},
}

#: Prints the file of each function that a run calls, in order, when everything is loaded.
PLAIN_RUN = """
import sys
from dagprofiler import DAG, Task

class Step(Task):
    inputs = outputs = ["x"]
    def compute(self, x=1): return {"x": x}

make = lambda: DAG({"a": Step(), "b": Step()}, [("a", "b")])
make().run()
dag, files = make(), []
sys.setprofile(lambda frame, event, _: files.append(frame.f_code.co_filename))
dag.run()
sys.setprofile(None)
print(*files, sep="\\n")
"""

#: Prints the files of all modules that ``import dagprofiler`` loads.
PLAIN_IMPORT = """
import sys, dagprofiler
print(*(getattr(m, "__file__", None) for m in list(sys.modules.values())), sep="\\n")
"""


def modules() -> dict[str, Path]:
    """Return all modules by their dotted names, without the package's own."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name: str, tree: ast.Module, known: dict[str, Path]) -> set[str]:
    """Return the modules that a module imports, for type checkers and inside functions too."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("dagprofiler"):
            base = str(node.module)[len("dagprofiler") :].lstrip(".")
            for alias in node.names:
                whole = f"{base}.{alias.name}".lstrip(".")
                found.add(whole if whole in known and whole != "task" else base)
    return found - {name}


def in_circles(uses: dict[str, set[str]]) -> list[str]:
    """Return the modules that import themselves by way of others."""

    def reached(module: str, found: set[str]) -> set[str]:
        for other in uses.get(module, set()) - found:
            if other not in found:
                found.add(other)
                reached(other, found)
        return found

    return [module for module in uses if module in reached(module, set())]


def code_lines(text: str) -> set[int]:
    """Return the numbers of the lines that hold code: no blanks, comments or docstrings."""
    documented = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            documented.update(range(first.lineno, first.end_lineno + 1))
    empty = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in empty | {tokenize.ENDMARKER}:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines - documented


def function_sizes(tree: ast.Module, lines: set[int]) -> list[int]:
    """Return the lines of code of each function."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        sum(node.lineno <= line <= node.end_lineno for line in lines)
        for node in ast.walk(tree)
        if isinstance(node, functions)
    ]


def stored_on_self(node: ast.ClassDef) -> set[str]:
    """Return the names that the methods of a class store on their first parameter."""
    names = set()
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.args.args:
            me = method.args.args[0].arg
            for part in ast.walk(method):
                if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
                    names |= {part.attr} if ast.unparse(part.value) == me else set()
    return names


def field_count(node: ast.ClassDef) -> int:
    """Return how many fields a class has: annotated names, and what its methods store on self."""
    annotated = [part.target for part in node.body if isinstance(part, ast.AnnAssign)]
    names = {target.id for target in annotated if isinstance(target, ast.Name)}
    return len(names | stored_on_self(node))


def size_of_run(classes: list[ast.ClassDef]) -> tuple[int, int, int]:
    """Return how many parameters, attributes and methods ``Run`` has."""
    run = next(node for node in classes if node.name == "Run")
    methods = {part.name: part.args for part in run.body if isinstance(part, ast.FunctionDef)}
    init = methods["__init__"]
    parameters = len(init.args) - 1 + len(init.kwonlyargs)
    return parameters, len(stored_on_self(run)), len(methods)


def files_printed(program: str) -> list[str]:
    """Return the files of the package that a program prints, in order."""
    command = [sys.executable, "-c", program]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [file for file in output.splitlines() if PACKAGE in Path(file).parents]


def figures() -> tuple[dict[str, int], list[str]]:
    """Return the figures, and what stands behind those that should be 0."""
    known = modules()
    texts = {name: path.read_text("utf-8") for name, path in known.items()}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    floor = {room.strip(): i for i, rooms in enumerate(layers) for room in rooms.split("|")}
    uses = {name: imports(name, tree, known) - {""} for name, tree in trees.items()}
    upward, private = [], []
    for name, used in uses.items():
        room = name.split(".")[0]
        for other in used:
            below = other.split(".")[0]
            if not room or below == room:
                continue
            if floor[room] >= floor[below]:
                upward.append(f"{name} -> {other}")
            if "." in other and other.split(".")[-1].startswith("_"):
                private.append(f"{name} -> {other}")
    circular = in_circles(uses)
    classes = [n for tree in trees.values() for n in tree.body if isinstance(n, ast.ClassDef)]
    names = Counter(node.name for node in classes)
    twice = [name for name, count in names.items() if count > 1]
    packages = defaultdict(list)
    for name, path in known.items():
        packages[path.parent].append(name)
    short = [
        name
        for name, text in texts.items()
        if text.count("\n") < 40
        and known[name].name not in {"__init__.py", "__main__.py", "_version.py"}
    ]
    parameters, attributes, methods = size_of_run(classes)
    called, imported = files_printed(PLAIN_RUN), files_printed(PLAIN_IMPORT)
    code = {name: code_lines(text) for name, text in texts.items()}
    functions = [size for name, tree in trees.items() for size in function_sizes(tree, code[name])]
    everything = "\n".join(texts.values())
    return {
        "files in the package's root": len(packages[PACKAGE]),
        "packages": len(packages) - 1,
        "modules": len(known),
        "most modules in a package": max(map(len, packages.values())),
        "floors": len(layers),
        "imports that run upward": len(upward),
        "modules in import circles": len(circular),
        "private modules that another package imports": len(private),
        "class names that exist twice": len(twice),
        "lines of code": sum(map(len, code.values())),
        "lines of tests": sum(
            path.read_text("utf-8").count("\n") for path in (ROOT / "tests").rglob("*.py")
        ),
        "parameters of Run": parameters,
        "attributes of Run": attributes,
        "methods of Run": methods,
        "modules below 40 lines that are no faces": len(short),
        "files that a plain serial run crosses": len({*called}),
        "modules that importing the package loads": len(imported),
        "switches of file in a plain serial run": sum(map(ne, called, called[1:])),
        "longest function, in lines of code": max(functions),
        "functions over 50 lines of code": sum(size > 50 for size in functions),
        "most fields of a class": max(map(field_count, classes)),
        **{
            f"uses of {text}": len(re.findall(pattern, everything))
            for text, (pattern, _) in GUARDS_AND_TRICKS.items()
        },
    }, [*upward, *private, *circular, *twice, *short, *sorted({*called})]


def main() -> int:
    """Print the table; return 1 if a limit is passed."""
    measured, culprits = figures()
    width = max(map(len, measured))
    for name, value in measured.items():
        passed = "  passed" if value > LIMITS[name] else ""
        print(f"{name:{width}}  {value:>7,}  at most {LIMITS[name]:>7,}{passed}")
    over = any(value > LIMITS[name] for name, value in measured.items())
    if over or "-v" in sys.argv:
        print("", *culprits, sep="\n")
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
