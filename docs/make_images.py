"""Make the pictures of the documentation, in ``docs/images``: of reports, terminals, notebooks.

    python docs/make_images.py [NAME...]

Run by hand, on an idle Linux, when what people see changes; needs Chromium and the packages
playwright, pillow, distributed, matplotlib, pyte, nbclient, nbconvert and ipykernel. From a copy
outside of the checkout the pictures name no commit.
"""

from __future__ import annotations

import hashlib
import io
import os
import pty
import shutil
import subprocess
import sys
import tempfile
import termios
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache, partial
from html import escape
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

import nbformat
import pyte
from distributed import Client, LocalCluster
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from PIL import Image
from playwright.sync_api import sync_playwright

from dagprofiler import DAG, DaskExecutor, Profile, RunError, compare_runs, rng, task

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from dagprofiler import RunComparison

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS / "examples"), str(DOCS.parent / "tests")]

import check_page  # noqa: E402
import image_pipeline  # noqa: E402
import slice_scheduler  # noqa: E402
import text_index  # noqa: E402
import word_counts  # noqa: E402

#: Widths of a page, in pixels.
WIDE, MEDIUM, PHONE = 1280, 860, 420

#: Columns and rows of a terminal, its colours, and those that programs ask for.
COLUMNS, ROWS = 96, 60
INK, PAPER = "#d6d8dc", "#1b1e24"
COLOURS = {"red": "#ff7b72", "green": "#7ee787", "brown": "#e3b341", "cyan": "#79c0ff"}


@task(outputs=["rows"])
def load() -> dict[str, Any]:
    """Spend 1 ms on average."""
    time.sleep(rng().exponential(1e-3))
    return {"rows": 1}


@task(inputs=["rows"], outputs=["rows"], gathers=["rows"])
def transform(rows: list[int]) -> dict[str, Any]:
    """Spend 2 ms on average."""
    time.sleep(rng().exponential(2e-3))
    return {"rows": len(rows)}


@task(inputs=["rows"], outputs=["rows"])
def parse(rows: Any) -> dict[str, Any]:
    """Fail."""
    raise ValueError(f"row 17 of {rows!r} has no comma")


def step(ms: int, kilobytes: int) -> Callable[..., dict[str, Any]]:
    """Return a function that computes for some milliseconds, and returns this much data."""

    def compute(data: list[bytes]) -> dict[str, Any]:  # noqa: ARG001  (an input by its name)
        hashlib.pbkdf2_hmac("sha256", b"data", b"salt", 1_400 * ms)
        return {"data": bytes(1_000 * kilobytes)}

    return compute


def weather() -> Profile:
    """Return rounds of a forecast of two regions on two processes, at a time without warnings."""
    costs = {
        "read": (8, 600),
        "clean_north": (18, 400),
        "clean_south": (9, 150),
        "forecast_north": (36, 250),
        "forecast_south": (30, 100),
        "draw": (12, 10),
    }
    tasks = {
        name: task(gathers=["data"], outputs=["data"])(step(*cost)) for name, cost in costs.items()
    }
    edges = []
    for region in ("north", "south"):
        path = ["read", f"clean_{region}", f"forecast_{region}", "draw"]
        edges += zip(path, path[1:])
    for _ in range(20):
        with ProcessPoolExecutor(2) as pool:
            profile = DAG(tasks, edges, name="forecast").run(seed=1, rounds=20, executor=pool)
        if not profile.sections["statistics"]["flags"]:
            return profile
    raise RuntimeError("other programs use the machine")


@cache
def scheduler() -> Profile:
    """Return 30 rounds of the slice scheduler, of which several pictures are made."""
    return slice_scheduler.build_dag().run(seed=1, rounds=30)


def more_users() -> RunComparison:
    """Return a comparison of the slice scheduler for 10,000 users with that for 8,000."""
    few, many = (slice_scheduler.build_dag(N_UE=n_ue) for n_ue in (8_000, 10_000))
    return compare_runs(few, many, seed=1)


def layered() -> Profile:
    """Return a run of 2,000 tasks in 20 layers on four threads."""
    tasks = {f"layer{i}_task{j}": transform if i else load for i in range(20) for j in range(100)}
    edges = [
        (f"layer{i - 1}_task{(j * 7 + k * 31) % 100}", f"layer{i}_task{j}")
        for i in range(1, 20)
        for j in range(100)
        for k in range(2)
    ]
    with ThreadPoolExecutor(4) as pool:
        return DAG(tasks, edges).run(seed=1, executor=pool)


def failed() -> Profile:
    """Return a run in which a task failed."""
    tasks = {"load": load, "parse": parse, "index": parse, "copy": transform, "rank": transform}
    edges = [("load", "parse"), ("parse", "index"), ("load", "copy"), ("index", "rank")]
    try:
        DAG(tasks, edges).run(seed=1)
    except RunError as error:
        # Where this file is, is of no interest to readers.
        for frame in error.profile.sections["run"]["tasks"]["parse"]["traceback"]:
            frame["file"] = "pipeline.py"
        return error.profile
    raise AssertionError


def on_cluster() -> Profile:
    """Return a run of the word counts on two workers of Dask."""
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        return word_counts.build_dag().run(executor=DaskExecutor(client))


def typed(words: str, until: str | None = None) -> str:
    """Return a page with a terminal after a command, or when a text has appeared."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (ROWS, COLUMNS))
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(DOCS / "examples", folder, dirs_exist_ok=True)
        process = subprocess.Popen(  # noqa: S603  (our own command)
            [sys.executable, "-m", "dagprofiler", *words.split()],
            cwd=folder,
            env={**os.environ, "TERM": "xterm-256color"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        try:
            while until is None or until not in "".join(screen.display):
                stream.feed(os.read(ours, 1 << 16))
        except OSError:
            pass  # The command has ended.
        last = max(row for row, line in enumerate(screen.display) if line.strip())
        lines = "\n".join(in_colours(screen.buffer[row]) for row in range(last + 1))
        process.terminate()
        process.wait()
        os.close(ours)
    style = "margin: 0; padding: 16px; font: 14px/1.35 monospace; white-space: pre-wrap"
    return (
        f"<body style='margin: 0; background: {PAPER}; color: {INK}'>"
        f"<pre id=overview style='{style}'>$ dagprofiler {words}\n{lines}</pre>"
    )


def in_colours(line: dict[int, Any]) -> str:
    """Return a line of a terminal as HTML."""
    characters = [line[column] for column in range(COLUMNS)]
    styles = groupby(characters, lambda one: (COLOURS.get(one.fg, INK), one.bold))
    return "".join(
        f"<span style='color: {colour}; font-weight: {700 if bold else 400}'>"
        f"{escape(''.join(part.data for part in run))}</span>"
        for (colour, bold), run in styles
    )


def shown(page: str, picture: str, expression: str) -> Any:
    """Return the value of an expression where a page shows a picture of it."""
    path = DOCS / page
    end = path.read_text(encoding="utf-8").index(f"images/{picture}.png")
    # A module that can be found by its name, so that what the page defines can be pickled.
    module = sys.modules["page"] = ModuleType("page")
    for _ in check_page.outputs(path, module, end):
        pass
    return eval(expression, vars(module))  # noqa: S307  (one of PICTURES)


def cell(page: str, picture: str, expression: str) -> str:
    """Return a page with what a notebook shows of an expression."""
    value = shown(page, picture, expression)
    if hasattr(value, "_repr_html_"):
        markup = value._repr_html_()
    else:
        stream = io.StringIO()
        value.get_figure().savefig(stream, format="svg", facecolor="white")
        markup = "<svg style='max-width: 100%'" + stream.getvalue().partition("<svg")[2]
    style = "font: 14px sans-serif; padding: 8px; width: fit-content"
    return f"<body style='margin: 0'><div id=overview class=fits style='{style}'>{markup}</div>"


@cache
def notebook(theme: str) -> str:
    """Return a page with a notebook whose cells have been run."""
    cells = [
        "from slice_scheduler import build_dag",
        "profile = build_dag().run(seed=1, rounds=30)\nprofile",
    ]
    made = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, cells)))
    resources = {"metadata": {"path": DOCS / "examples"}}
    NotebookClient(made, kernel_name="python3", resources=resources).execute()
    page: str = HTMLExporter(theme=theme).from_notebook_node(made)[0]
    return page.replace("<main>", "<main id=overview>")


class Picture(NamedTuple):
    """A part of a page, from the top of one section to the end of another.

    Attributes
    ----------
    made
        Makes the profile or comparison that is reported, or else the page.
    lanes
        What has a lane in the timeline: ``"task"``, ``"worker"`` or ``"kind"``.
    pieces
        Selectors of what is in the picture, instead of sections; above the first, all.
    """

    made: Callable[[], Profile | RunComparison | str]
    first: str = "overview"
    last: str = "overview"
    width: int = WIDE
    colours: str = "light"
    lanes: str = "task"
    pieces: tuple[str, ...] = ()


#: A page in short: its figures, its DAG, its timeline.
SHORT = ("#overview .figures", "#graph .canvas svg > g", "#timeline .gantt")

PICTURES = {
    "readme-light": Picture(weather, lanes="worker", pieces=SHORT),
    "readme-dark": Picture(weather, colours="dark", lanes="worker", pieces=SHORT),
    "report-light": Picture(scheduler, "overview", "timeline"),
    "report-dark": Picture(scheduler, "overview", "timeline", colours="dark"),
    "report-phone": Picture(scheduler, "overview", "overview", PHONE),
    "report-comparison": Picture(more_users, "overview", "comparison"),
    "report-failed": Picture(failed, "overview", "graph"),
    "report-2000-tasks": Picture(layered, "graph", "kinds"),
    "text-index": Picture(lambda: text_index.build_dag().run(rounds=6), "graph", "timeline"),
    "slice-scheduler": Picture(scheduler, "graph", "timeline"),
    "image-pipeline": Picture(
        lambda: image_pipeline.build_dag().run(seed=1, rounds=6), "graph", "timeline"
    ),
    "word-counts": Picture(lambda: word_counts.build_dag().run(), "graph", "timeline"),
    "notebook-light": Picture(lambda: notebook("light"), width=MEDIUM),
    "notebook-dark": Picture(lambda: notebook("dark"), width=MEDIUM, colours="dark"),
    "terminal-progress": Picture(
        lambda: typed("run text_index.py:build_dag --rounds 10", "round 8 of 12"), width=MEDIUM
    ),
    "terminal-run": Picture(
        lambda: typed("run slice_scheduler.py:build_dag --rounds 30 --seed 1 -o slices.json"),
        width=MEDIUM,
    ),
    "terminal-compare": Picture(
        lambda: typed(
            "compare --run slice_scheduler.py:build_dag slice_scheduler.py:build_dag"
            " --new-config N_UE=12000"
        ),
        width=MEDIUM,
    ),
    "cluster": Picture(on_cluster, "timeline", "timeline", lanes="worker"),
    "tutorial-report": Picture(
        lambda: shown("tutorial.md", "tutorial-report", "comparison"), "overview", "comparison"
    ),
}

#: Page, picture, and the expression that it shows as a notebook does.
CELLS = [
    ("tutorial.md", "tutorial-dag", "dag"),
    ("tutorial.md", "tutorial-profile", "profile"),
    ("tutorial.md", "tutorial-comparison", "comparison"),
    ("notebooks.md", "notebook-dag", "dag"),
    ("notebooks.md", "notebook-profile", "profile"),
    ("notebooks.md", "notebook-comparison", "comparison"),
    ("notebooks.md", "notebook-analysis", "analysis"),
    ("notebooks.md", "notebook-gantt", "ax"),
    ("notebooks.md", "notebook-samples", "ax"),
    ("notebooks.md", "notebook-axes", "right"),
    ("cluster.md", "cluster-profile", "there"),
    ("migrating_adage.md", "adage-profile", "profile"),
]
PICTURES.update({which[1]: Picture(partial(cell, *which), width=MEDIUM) for which in CELLS})


def take(browser: Browser, path: Path, name: str) -> None:
    """Write the picture of this name."""
    wanted = PICTURES[name]
    made = wanted.made()
    if isinstance(made, str):
        path.write_text(made, encoding="utf-8")
    else:
        made.report(path)
    viewport = {"width": wanted.width, "height": 900}
    page = browser.new_page(viewport=viewport, color_scheme=wanted.colours)
    page.goto(path.as_uri())
    page.wait_for_selector(f"#{wanted.last}")
    if wanted.lanes != "task":
        page.select_option("#lanes", label=wanted.lanes)
    shots = [
        Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip)))
        for clip in clips(page, wanted)
    ]
    background = shots[0].getpixel((0, 0))
    page.close()
    height = sum(shot.height for shot in shots)
    image = Image.new("RGB", (max(shot.width for shot in shots), height), background)
    top = 0
    for shot in shots:
        image.paste(shot, (0, top))
        top += shot.height
    # Few colours make small files.
    image = image.quantize(256, dither=Image.Dither.NONE)
    image.save(DOCS / "images" / f"{name}.png", optimize=True)


def clips(page: Page, wanted: Picture) -> list[dict[str, float]]:
    """Return the rectangles of a page that are in the picture, one below the other."""
    if wanted.pieces:
        boxes = [page.locator(piece).first.bounding_box() for piece in wanted.pieces]
        boxes[0]["height"] += boxes[0]["y"]
        boxes[0]["y"] = 0
        gap = 12
        return [
            {
                "x": gap,
                "y": max(0, box["y"] - gap),
                "width": box["x"] + box["width"],
                "height": box["height"] + 2 * gap,
            }
            for box in boxes
        ]
    top = 0
    if wanted.first != "overview":
        top = page.locator(f"#{wanted.first}").bounding_box()["y"]
    end = page.locator(f"#{wanted.last}").bounding_box()
    width = wanted.width
    if page.locator("#overview.fits").count():
        width = min(width, end["x"] + end["width"])
    return [{"x": 0, "y": top, "width": width, "height": end["y"] + end["height"] - top}]


def main(names: list[str]) -> None:
    """Write the pictures of these names, or all."""
    (DOCS / "images").mkdir(exist_ok=True)
    os.environ["MPLBACKEND"] = "Agg"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        os.chdir(folder)  # Pages write files.
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        # Each profile is taken in a thread without an event loop.
        for name in names or PICTURES:
            take(browser, Path(folder) / f"{name}.html", name)


if __name__ == "__main__":
    main(sys.argv[1:])
