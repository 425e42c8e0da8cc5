"""Reports in a real browser, which is offline: they open, answer, and can be used by everybody."""

import csv
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from runpy import run_path

import pytest
from sample_profiles import HOSTILE, golden_profile, large_profile, profile_of
from wide_dag import fails, load, merge, part, wide

from dagprofiler import DAG, Profile, Rounds, analyze, import_profile, simulate, task, tracing
from dagprofiler.errors import RunError
from dagprofiler.rules import map_over, reduce

pytestmark = pytest.mark.external

DATA = Path(__file__).resolve().parent.parent / "data"
LOOK = Path(__file__).with_name("look_at_page.js").read_text(encoding="utf-8")
EXAMPLES = Path(__file__).resolve().parent.parent.parent / "docs" / "examples"


def ran(width, **options):
    return wide(width).run(**options)


def built(name, **options):
    return run_path(str(EXAMPLES / f"{name}.py"))["build_dag"](**options)


def failed_at_once():
    edges = [("load", "fails"), ("fails", "merge")]
    with pytest.raises(RunError) as caught:
        DAG({"load": load, "fails": fails, "merge": merge}, edges).run()
    return caught.value.profile


@pytest.fixture(scope="module")
def measured():
    return ran(5, rounds=7, meters="full")


@pytest.fixture
def opened(browser, tmp_path):
    """Open the report of a profile; whatever goes wrong in the page fails the test."""
    wrong, contexts = [], []

    def open_report(profile, base=None, **options):
        path = tmp_path / f"report{len(contexts)}.html"
        profile.report(path, base)
        context = browser.new_context(
            offline=True, **{"viewport": {"width": 1400, "height": 900}, **options}
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: (wrong.append("a dialog"), dialog.dismiss()))
        page.on("request", lambda one: one.url == path.as_uri() or wrong.append(one.url))
        page.goto(path.as_uri())
        page.wait_for_selector("footer")
        return page

    yield open_report
    for context in contexts:
        context.close()
    assert wrong == []


def search(page, name):
    """Select a task as one who looks for it does; return the name in the panel."""
    page.locator("#search").fill(name)
    page.locator("#search").press("Enter")
    return page.locator(".panel h3").inner_text()


def count(page, selector):
    return page.locator(selector).count()


def camera(page):
    return page.locator("#graph .canvas svg > g").get_attribute("transform")


def scale(page):
    return float(camera(page).partition("scale(")[2].rstrip(")"))


PROFILES = {
    "example quickstart": lambda: built("quickstart").run(seed=1),
    "example text_index": lambda: built("text_index", max_files=20).run(seed=1),
    "example slice_scheduler": lambda: built("slice_scheduler", N_UE=200).run(seed=1),
    "empty": lambda: DAG({}).run(),
    "partial": golden_profile,
    "without costs": lambda: profile_of(["a"], {"a": 0}),
    "of 0.1.0": lambda: Profile.load(DATA / "standard-sample.json"),
    "imported": lambda: import_profile(DATA / "wfformat" / "v15.json"),
    "failed": failed_at_once,
    "metered": lambda: ran(2, meters="default"),
    "short": lambda: ran(2, rounds=2),
}


@pytest.mark.parametrize("kind", PROFILES)
def test_a_report_has_a_node_a_task_and_a_line_an_edge(opened, kind):
    made = PROFILES[kind]()
    page = opened(made, made)
    assert count(page, "#graph .node") == len(made.dag_structure["nodes"])
    assert count(page, "#graph .wire") == len(made.dag_structure["edges"])
    assert count(page, "section") >= 5
    if kind.startswith("example"):
        assert count(page, "#graph .node.path") >= 1


def test_hostile_names_are_texts_everywhere(opened):
    tasks = [*HOSTILE, "<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>"]
    page = opened(profile_of(tasks), profile_of(tasks[::-1]))
    assert count(page, "img") == 0
    assert count(page, "script") == 2
    assert count(page, "#graph .node") == len(tasks)
    page.get_by_label("Filter: Tasks").fill("<img")
    row = page.locator("#tasks tbody th button")
    assert row.inner_text() == "<img src=x onerror=alert(1)>"
    row.click()
    assert page.locator(".panel h3").inner_text() == "<img src=x onerror=alert(1)>"
    # Compared in the page: half of a surrogate pair would not survive the way here.
    page.get_by_label("Filter: Tasks").fill("")
    assert page.evaluate("""() => {
        const shown = [...document.querySelectorAll("#tasks tbody th button")];
        return shown.length === names.length && shown.every((one) => names.includes(one.title));
    }""")


def test_thousands_of_tasks_are_shown_in_groups_and_one_by_one(opened):
    page = opened(ran(1998))
    assert count(page, "#graph .node") == 3
    page.locator("#picture").select_option("1")
    assert count(page, "#graph .node") == 2000
    assert count(page, "#graph .wire") == 3996
    assert search(page, "part_1234") == "part_1234"
    assert page.locator("#graph .node.chosen").is_visible()
    page = opened(large_profile(20_000))
    assert 2 <= count(page, "#graph .node") <= 600
    page.get_by_label("Filter: Tasks").fill("t012345")
    page.locator("#tasks tbody button").click()
    assert page.locator(".panel h3").inner_text() == "t012345"


def test_a_click_shows_the_task_and_a_measure_sets_the_sizes(opened, measured):
    page = opened(measured)
    page.locator("#graph .node", has_text="part_3").click()
    panel = page.locator(".panel")
    assert panel.locator("h3").inner_text() == "part_3"
    text = panel.inner_text()
    assert all(w in text for w in ("time in compute()", "Inputs", "load", "merge", "rows"))
    rounds = measured.sections["samples"]["rounds"].count("measured")
    assert panel.locator("circle.sample").count() == rounds
    assert count(page, "#graph .node.chosen") == 1
    assert count(page, "#tasks tr.chosen") == 1
    panel.get_by_role("button", name="load").click()
    assert panel.locator("h3").inner_text() == "load"
    sizes = "nodes => nodes.map((node) => node.getAttribute('height'))"
    nodes = page.locator("#graph .node rect")
    before = nodes.evaluate_all(sizes)
    page.locator("#measure").select_option(label="bytes out")
    assert nodes.evaluate_all(sizes) != before
    assert "bytes out" in page.locator("#graph .node").first.get_attribute("aria-label")


def test_search_marks_hits_and_goes_through_them(opened, measured):
    page = opened(measured)
    page.locator("#search").fill("PART_")
    assert count(page, "#graph .node.found") == 5
    assert page.locator("#hits").inner_text() == "5 hits"
    assert count(page, "#tasks tr.found") == 5
    chosen = []
    for _ in range(6):
        page.locator("#search").press("Enter")
        chosen.append(page.locator(".panel h3").inner_text())
    assert len(set(chosen[:5])) == 5
    assert chosen[5] == chosen[0]
    page.locator("#search").fill("nothing like it")
    assert page.locator("#hits").inner_text() == "no hit"
    assert count(page, "#graph .searching") == 0


def test_a_click_on_a_kind_finds_its_tasks(opened):
    page = opened(ran(120))
    assert count(page, "#kinds tbody tr") == 3
    page.locator("#kinds").get_by_role("button", name="part_*").click()
    assert page.locator("#search").input_value() == "part_*"
    assert page.locator("#hits").inner_text() == "120 hits"
    assert count(page, "#graph .node.found") == 120
    assert count(page, "#tasks tr.found") == 50
    page.keyboard.press("Escape")
    assert count(page, ".found") == 0
    for name in ("part_7", "part_101"):
        search(page, name)
        page.locator("#search").fill("")
        # On whatever page of the table it is.
        assert page.locator("#tasks tr.chosen th").inner_text().startswith(name)
        assert page.locator("#graph .node.chosen").text_content().startswith(name)


def test_tables_sort_filter_and_are_saved_as_csv(opened):
    page = opened(ran(60))
    tasks = page.locator("#tasks")
    names = tasks.locator("tbody th")
    assert names.count() == 50
    tasks.locator("thead button", has_text="task").click()
    assert names.first.inner_text().startswith("load")
    tasks.locator("thead button", has_text="task").click()
    assert names.first.inner_text().startswith("part_")
    tasks.get_by_role("button", name="Next").click()
    assert names.count() == 12
    page.get_by_label("Filter: Edges").fill("part_59")
    assert count(page, "#edges tbody tr") == 2
    tasks.locator("summary").click()
    tasks.get_by_label("share of work", exact=True).uncheck()
    tasks.get_by_label("level", exact=True).check()
    with page.expect_download() as download:
        tasks.get_by_role("button", name="CSV").click()
    assert download.value.suggested_filename == "tasks.csv"
    with open(download.value.path(), encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["task"] for row in rows} == {"load", "merge", *(f"part_{i}" for i in range(60))}
    assert {"time (ms)", "bytes out (bytes)", "level"} <= rows[0].keys()
    assert "share of work" not in rows[0]
    page.get_by_label("Filter: Tasks").fill("part_1")
    assert names.count() == 11


def test_spans_are_shown_as_a_flame_of_the_selected_task(opened):
    @task(outputs=["rows"])
    def split():
        with tracing.span("outer"), tracing.span("inner"):
            return {"rows": list(range(1000))}

    page = opened(DAG({"split": split, "part": part}, [("split", "part")]).run())
    page.locator("#graph .node", has_text="split").click()
    flame = page.locator("#spans .flame rect")
    assert flame.count() == 2
    outer, inner = (flame.nth(i).bounding_box() for i in range(2))
    assert inner["y"] > outer["y"]
    assert inner["width"] <= outer["width"]
    assert page.locator("#spans tbody tr").count() == 2
    page.locator("#graph .node", has_text="part").click()
    assert flame.count() == 0


def test_many_tasks_are_shown_as_groups_and_rows_of_kinds(opened):
    page = opened(ran(200))
    page.locator("#graph .node", has_text="part_*").click()
    assert "In the group part_*" in page.locator(".panel").inner_text()
    assert page.locator(".panel li").count() >= 50
    timeline = page.locator("#timeline")
    assert "a row for each kind" in timeline.inner_text()
    search(page, "part_7")
    timeline.get_by_role("button", name="Zoom to the selected task").click()
    assert "a row for each kind" not in timeline.inner_text()


def test_a_failure_is_at_the_top_with_what_did_not_run(opened):
    page = opened(failed_at_once())
    top = page.locator("#overview .warning").inner_text()
    assert "no luck" in top
    assert "1 task skipped" in top
    assert page.locator("h1").inner_text().startswith("1 of 3 tasks in ")
    assert page.locator("h1").inner_text().endswith("; fails failed")
    assert count(page, "#graph .node.failed") == count(page, "#graph .node.skipped") == 1
    assert page.locator(".panel h3").inner_text() == "fails"


def test_the_picture_zooms_and_moves(opened, measured):
    page = opened(measured)
    page.locator("#graph").scroll_into_view_if_needed()
    begin = scale(page)
    page.get_by_label("Zoom in", exact=True).click()
    assert scale(page) == pytest.approx(1.3 * begin)
    page.get_by_label("Zoom out", exact=True).click()
    assert scale(page) == pytest.approx(begin)
    box = page.locator("#graph .canvas svg").bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    page.mouse.wheel(0, -10)
    assert scale(page) == pytest.approx(begin)
    page.locator("#graph").scroll_into_view_if_needed()
    box = page.locator("#graph .canvas svg").bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    assert scale(page) > begin
    before, task = camera(page), page.locator(".panel h3").inner_text()
    page.mouse.down()
    page.mouse.move(box["x"] + 120, box["y"] + 60, steps=4)
    page.mouse.up()
    assert camera(page) != before
    assert page.locator(".panel h3").inner_text() == task
    page.get_by_label("Fit all").click()
    assert scale(page) == pytest.approx(begin)


def test_the_timeline_names_what_is_under_the_pointer(opened, measured):
    page = opened(measured)
    rows = page.locator("#timeline .rows canvas")
    rows.scroll_into_view_if_needed()
    box = rows.bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 26 + 11)
    assert page.locator("#tip").inner_text().startswith("load")
    page.mouse.down()
    page.mouse.up()
    assert page.locator(".panel h3").inner_text() == "load"
    page.locator("#lanes").select_option("workers")
    assert page.locator("#timeline .memory").is_visible() == any(
        "resident_before_bytes" in row for row in measured.sections["samples"]["tasks"].values()
    )
    page.get_by_label("Zoom in on time").click()


def test_a_base_is_shown_beside_it_with_verdicts(opened, measured):
    page = opened(measured, ran(4, rounds=7))
    comparison = page.locator("#comparison")
    assert comparison.locator("tbody tr").first.is_visible()
    text = comparison.inner_text()
    for words in ("inconclusive", "Tasks that the base lacks", "part_4"):
        assert words in text
    assert "->" not in text
    assert "base: " in page.locator("#overview .figures").inner_text()
    assert " a round" in page.locator("#overview .finding").inner_text()
    assert page.locator("#colour").input_value() == "change"
    assert "%" in page.locator("#graph .node", has_text="part_1").text_content()
    page = opened(ran(3, rounds=Rounds(2)), ran(3, rounds=Rounds(2)))
    assert "across processes" in page.locator("#comparison ol").inner_text()


def test_a_prediction_is_shown_beside_the_real_run(opened, measured):
    found = simulate(measured, workers=range(1, 4))
    page = opened(measured, found.profile, viewport={"width": 420, "height": 900})
    assert "the real one" in page.inner_text("#prediction")
    assert count(page, "#prediction tbody tr") == 6
    assert page.locator("#prediction canvas").evaluate("canvas => canvas.width") > 100
    assert page.evaluate("document.documentElement.scrollWidth") == 420
    page = opened(found.profile)
    assert count(page, "#prediction svg circle") == 3
    assert count(page, "#prediction svg .band") == 1


def test_the_keyboard_walks_along_edges(opened, measured):
    page = opened(measured)
    page.locator("#graph .node").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert focused.startswith("merge")
    page.keyboard.press("Enter")
    assert page.locator(".panel h3").inner_text() == "merge"
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("part_")
    assert count(page, '#graph .node[tabindex="0"]') == 1


def many_levels():
    """Return a DAG of 16 levels, some of them of two tasks, with an edge that skips levels."""
    names = [f"level_{n:02}_of_the_pipeline" for n in range(16)]
    edges = [*zip(names, names[1:]), (names[2], "beside"), ("beside", names[9])]
    edges = [(*edge, []) for edge in edges]
    step = task(outputs=["x"])(lambda: {"x": 0})
    return DAG(dict.fromkeys((*names, "beside"), step), edges, name="deep")


def on_two_workers():
    with ThreadPoolExecutor(2) as pool:
        return built("image_pipeline").run(rounds=7, meters="full", executor=pool)


#: What is looked at: a profile, and a base or None.
LOOKED_AT = {
    "application": lambda: (on_two_workers(), None),
    "comparison": lambda: (built("image_pipeline").run(rounds=7), on_two_workers()),
    "failed": lambda: (failed_at_once(), None),
    "deep": lambda: (many_levels().run(), None),
    "kinds": lambda: (ran(200), None),
}


@pytest.fixture(scope="module")
def looked_at():
    return {name: make() for name, make in LOOKED_AT.items()}


def look_at(page, axe, name):
    """Keep a picture of the page if there is a folder for it; return what is wrong with it."""
    folder = os.environ.get("DAGPROFILER_PICTURES")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(folder, f"{name}.png"), full_page=True)
    wrong = page.evaluate(LOOK)
    page.evaluate(axe)
    found = page.evaluate("axe.run()")
    assert found["passes"]
    return wrong + [
        f"{one['id']}: {node['html']}" for one in found["violations"] for node in one["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280, 1920])
def test_nothing_is_cut_covered_or_faint_at_any_width(opened, looked_at, axe, width, scheme):
    wrong = {}
    for name, shown in looked_at.items():
        page = opened(*shown, color_scheme=scheme, viewport={"width": width, "height": 900})
        wrong[name] = look_at(page, axe, f"{name}-{width}-{scheme}")
    assert wrong == {name: [] for name in looked_at}


@pytest.mark.parametrize("width", [400, 1280])
def test_a_notebook_shows_tables_and_picture_in_its_width(browser, looked_at, tmp_path, width):
    profile, base = looked_at["comparison"]
    shown = (profile, profile.compare(base), analyze(profile), built("image_pipeline"))
    body = "".join(one._repr_html_() for one in shown).replace("<details>", "<details open>")
    path = tmp_path / "cell.html"
    path.write_text(f"<!doctype html><meta charset=utf-8>{body}", encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(path.as_uri())
    assert page.evaluate(LOOK) == []
    assert count(page, "svg:visible") == 2
    page.close()


@pytest.mark.parametrize("width", [400, 1280])
def test_the_tab_key_goes_through_the_page_in_its_order(opened, looked_at, width):
    page = opened(*looked_at["failed"], viewport={"width": width, "height": 900})
    order = """all => all.filter((one) => one.tabIndex >= 0 && one.checkVisibility())
        .map((one) => [...document.all].indexOf(one))"""
    wanted = page.locator("a, button, input, select, summary, [tabindex]").evaluate_all(order)
    came = []
    for _ in wanted:
        page.keyboard.press("Tab")
        came.append(page.evaluate("[...document.all].indexOf(document.activeElement)"))
    assert came == sorted(wanted)


def test_the_theme_follows_system_and_button_and_paper_is_light(opened, measured):
    page = opened(measured, color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.locator("#theme").click()
    assert page.locator("#theme").inner_text() == "Theme: light"
    assert page.evaluate(background) != dark
    page.locator("#theme").click()
    assert page.evaluate(background) == dark
    page.emulate_media(media="print")
    assert not page.locator(".bar").is_visible()
    assert not page.locator("#graph .tools").is_visible()
    assert page.evaluate("getComputedStyle(document.body).colorScheme") == "light"
    assert page.pdf().startswith(b"%PDF")


def test_the_policy_keeps_the_network_out(browser, tmp_path):
    path = tmp_path / "report.html"
    golden_profile().report(path)
    server = socket.create_server(("127.0.0.1", 0))
    # Online: what stops the requests must be the page's own policy.
    page = browser.new_page()
    page.goto(path.as_uri())
    refused = page.evaluate(
        """async (url) => {
        const refused = [];
        const note = (event) => refused.push(event.effectiveDirective);
        document.addEventListener("securitypolicyviolation", note);
        await fetch(url).catch(() => {});
        const image = new Image();
        image.src = url;
        const script = document.createElement("script");
        script.textContent = "window.broken = true";
        document.body.append(image, script);
        await new Promise((done) => setTimeout(done, 100));
        return [refused.sort(), window.broken];
    }""",
        f"http://127.0.0.1:{server.getsockname()[1]}/",
    )
    page.close()
    server.setblocking(False)
    with server, pytest.raises(BlockingIOError):
        server.accept()
    assert refused == [["connect-src", "img-src", "script-src-elem"], None]


def test_a_graph_that_grew_is_shown_as_it_was_at_any_moment(opened):
    rules = [map_over("split", "rows", part, into="rows"), reduce("part", merge)]

    @task(outputs=["rows"])
    def split():
        return {"rows": [[1], [2, 3]]}

    page = opened(DAG({"split": split}, rules=rules).run())

    def shown_after(step):
        page.locator("#step").fill(str(step))
        page.locator("#step").dispatch_event("input")
        return [page.locator(f"#graph .{kind}:not(.later)").count() for kind in ("node", "wire")]

    assert shown_after(0) == [1, 0]
    assert shown_after(1) == [3, 2]
    assert "map part" in page.locator("#graph .tools").inner_text()
    assert shown_after(2) == [4, 4]
