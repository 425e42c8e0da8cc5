from concurrent.futures import ThreadPoolExecutor

import pytest
from sample_profiles import HOSTILE, large_profile, profile_of
from wide_dag import fails, load, wide

from dagprofiler import DAG, RunError
from dagprofiler.report import plot

#: Matplotlib calls what newer versions of pyparsing call otherwise.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:matplotlib")


@pytest.fixture(scope="module")
def profile():
    return wide(2).run(rounds=5, meters="default")


@pytest.fixture(autouse=True)
def pyplot():
    """Matplotlib without a display; figures are closed."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def rendered(ax):
    """Draw all of it, so that what cannot be drawn is noticed."""
    ax.figure.canvas.draw()
    return ax


def rows(ax):
    return [one.get_text() for one in ax.get_yticklabels()]


@pytest.mark.parametrize("draw", [plot.gantt, plot.samples])
def test_a_plot_draws_on_the_given_axes_or_new_ones(draw, profile, pyplot):
    figure, ax = pyplot.subplots()
    assert draw(profile, ax) is ax
    assert draw(profile, ax=ax) is ax
    assert len(figure.axes) == 1
    rendered(ax)
    with pyplot.style.context("dark_background"):
        assert rendered(draw(profile)).figure is not figure


def test_a_gantt_has_a_row_for_each_task_or_worker(profile):
    ax = rendered(plot.gantt(profile))
    assert rows(ax) == ["load", "part_0", "part_1", "merge"]
    names = [one.get_text() for one in ax.get_legend().get_texts()]
    assert names == ["waiting", "deserialize", "compute", "serialize"]
    assert min(bar.get_x() for bars in ax.containers for bar in bars) == 0
    ax = rendered(plot.gantt(large_profile(500)))
    assert (rows(ax), ax.get_ylabel()) == ([], "500 tasks")
    with ThreadPoolExecutor(2) as pool:
        ax = rendered(plot.gantt(wide(4).run(executor=pool), by="worker"))
    assert 1 <= len(rows(ax)) <= 2


def test_a_gantt_is_of_the_round_asked_for(profile):
    drawn = [plot.gantt(profile, round=i).containers for i in (0, 1)]
    first, second = ([bar.get_width() for bars in one for bar in bars] for one in drawn)
    assert first != second
    with pytest.raises(RunError) as caught:
        DAG({"load": load, "fails": fails}, [("load", "fails")]).run()
    assert rows(rendered(plot.gantt(caught.value.profile)))[0] == "load"


@pytest.mark.parametrize(
    ("draw", "options", "expected"),
    [
        *((plot.gantt, {"round": i}, rf"round .*\[0, 1.*{i}") for i in (99, -1, "first")),
        (plot.gantt, {"by": "host"}, "by .*'task' or 'worker'.*'host'"),
        (plot.samples, {"column": "wal_ms"}, "column must be .*wall_ms.*did you mean"),
        (plot.samples, {"tasks": ["laod"]}, "no samples of a task 'laod'; did you mean 'load'"),
    ],
)
def test_a_plot_that_cannot_be_is_refused(draw, options, expected, profile):
    with pytest.raises(ValueError, match=expected):
        draw(profile, **options)
    with pytest.raises(ValueError, match=f"no {'timeline' if draw is plot.gantt else 'samples'}"):
        draw(profile_of(["a"]))


def test_samples_have_a_row_a_task_and_a_point_a_round(profile):
    ax = rendered(plot.samples(profile, column="wall_ms"))
    assert rows(ax) == ["load", "part_0", "part_1", "merge"]
    assert [len(line.get_xdata()) for line in ax.lines] == [5] * 4
    assert ax.get_xlabel() == "time in compute(), ms"
    assert rows(plot.samples(profile, tasks=["merge", "load"])) == ["merge", "load"]
    assert rows(plot.samples(profile, tasks="load")) == ["load"]
    ax = rendered(plot.samples(wide(60).run(rounds=2, meters="wall")))
    assert len(rows(ax)) == 40
    assert ax.get_title() == "40 of 62 tasks"


@pytest.mark.filterwarnings("ignore:Glyph")
def test_names_are_text_whatever_they_hold():
    names = [name for name in HOSTILE if "中" not in name]
    rendered(plot.gantt(DAG({"load": load, **dict.fromkeys(names, load)}).run()))
