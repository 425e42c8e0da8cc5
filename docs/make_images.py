"""Make the pictures of the documentation: screenshots of reports, in ``docs/images``.

    python docs/make_images.py [NAME...]

Run by hand when the report changes; needs Chromium and the packages playwright and pillow.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

from PIL import Image
from playwright.sync_api import sync_playwright

from dagprofiler import DAG, Profile, RunError, rng, task

if TYPE_CHECKING:
    from playwright.sync_api import Browser

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS / "examples"))

import slice_scheduler  # noqa: E402

WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 420, "height": 860}


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


def scheduler(n_ue: int = 10_000) -> Profile:
    """Return seven rounds of the slice scheduler."""
    dag = slice_scheduler.build_dag(N_UE=n_ue)
    return dag.run(seed=1, rounds=7, meters="default")


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


#: Name to profile and base, viewport, colours, and the first and the last section shown.
PICTURES: dict[str, tuple[Callable[[], Any], dict[str, int], str, str, str]] = {
    "report-light": (lambda: (scheduler(),), WIDE, "light", "overview", "timeline"),
    "report-dark": (lambda: (scheduler(),), WIDE, "dark", "overview", "timeline"),
    "report-phone": (lambda: (scheduler(),), PHONE, "light", "overview", "overview"),
    "report-comparison": (
        lambda: (scheduler(), scheduler(8_000)), WIDE, "light", "overview", "comparison"
    ),
    "report-failed": (lambda: (failed(),), WIDE, "light", "overview", "graph"),
    "report-2000-tasks": (lambda: (layered(),), WIDE, "light", "graph", "kinds"),
}  # fmt: skip


def picture(browser: Browser, path: Path, name: str) -> None:
    """Write the picture of this name."""
    profiles, viewport, colours, first, last = PICTURES[name]
    profile, *base = profiles()
    profile.report(path, *base)
    page = browser.new_page(viewport=viewport, color_scheme=colours)
    page.goto(path.as_uri())
    page.wait_for_selector("footer")
    top = 0 if first == "overview" else page.locator(f"#{first}").bounding_box()["y"]
    end = page.locator(f"#{last}").bounding_box()
    clip = {"x": 0, "y": top, "width": viewport["width"], "height": end["y"] + end["height"] - top}
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
            picture(browser, Path(folder) / f"{name}.html", name)


if __name__ == "__main__":
    main(sys.argv[1:])
