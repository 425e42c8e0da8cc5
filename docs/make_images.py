"""Make the pictures of the documentation: screenshots of reports, in ``docs/images``.

    python docs/make_images.py [NAME...]

Run by hand when the report changes; needs Chromium and the packages playwright, pillow and
distributed.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from distributed import Client, LocalCluster
from PIL import Image
from playwright.sync_api import sync_playwright

from dagprofiler import DAG, DaskExecutor, Profile, RunError, compare_runs, rng, task

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from dagprofiler import RunComparison

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS / "examples"))

import image_pipeline  # noqa: E402
import slice_scheduler  # noqa: E402
import text_index  # noqa: E402
import word_counts  # noqa: E402

#: Widths of a page, in pixels.
WIDE, PHONE = 1280, 420


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


@cache
def scheduler() -> Profile:
    """Return seven rounds of the slice scheduler, of which several pictures are made."""
    return slice_scheduler.build_dag().run(seed=1, rounds=7)


def more_users() -> RunComparison:
    """Return a comparison of the slice scheduler for 10,000 users with that for 8,000."""
    few, many = (slice_scheduler.build_dag(N_UE=n_ue) for n_ue in (8_000, 10_000))
    return compare_runs(few, many, rounds=20, seed=1)


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


class Picture(NamedTuple):
    """A part of a report, from the top of one section to the end of another.

    Attributes
    ----------
    made
        Makes the profile, or the comparison, that is reported.
    lanes
        What has a lane in the timeline: ``"task"``, ``"worker"`` or ``"kind"``.
    """

    made: Callable[[], Profile | RunComparison]
    first: str
    last: str
    width: int = WIDE
    colours: str = "light"
    lanes: str = "task"


PICTURES = {
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
    "cluster": Picture(on_cluster, "timeline", "timeline", lanes="worker"),
}


def take(browser: Browser, path: Path, name: str) -> None:
    """Write the picture of this name."""
    wanted = PICTURES[name]
    wanted.made().report(path)
    viewport = {"width": wanted.width, "height": 900}
    page = browser.new_page(viewport=viewport, color_scheme=wanted.colours)
    page.goto(path.as_uri())
    page.wait_for_selector("footer")
    if wanted.lanes != "task":
        page.select_option("#lanes", label=wanted.lanes)
    top = 0
    if wanted.first != "overview":
        top = page.locator(f"#{wanted.first}").bounding_box()["y"]
    end = page.locator(f"#{wanted.last}").bounding_box()
    height = end["y"] + end["height"] - top
    clip = {"x": 0, "y": top, "width": wanted.width, "height": height}
    shot = page.screenshot(full_page=True, clip=clip)
    page.close()
    # Few colours make small files.
    image = Image.open(io.BytesIO(shot)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    image.save(DOCS / "images" / f"{name}.png", optimize=True)


def main(names: list[str]) -> None:
    """Write the pictures of these names, or all."""
    (DOCS / "images").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        # Each profile is taken in a thread without an event loop.
        for name in names or PICTURES:
            take(browser, Path(folder) / f"{name}.html", name)


if __name__ == "__main__":
    main(sys.argv[1:])
