import sys
from importlib import invalidate_caches

import pytest

from dagprofiler import FormatError
from dagprofiler._util.plugins import EXPORTERS, IMPORTERS, format_of, formats, load, loadable
from dagprofiler.formats import exporter, exporter_names, importer, importer_names

OURS = ["chrome_trace", "csv", "dot", "graphml", "html", "mermaid", "node_link", "saga", "wfformat"]

MODULE = """
from dagprofiler.formats import Export
class Tasks:
    name, extension = {name!r}, {extension!r}
    def render(self, profile, *, end="\\n"):
        return Export(end.join(profile.dag_structure["nodes"]), ("only names",))
EXPORTER = Tasks()
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts distributions with entry points on sys.path, as pip would."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def put(package, points, *, group=EXPORTERS, extension=".tasks", name="tasks"):
        (tmp_path / f"{package}.py").write_text(MODULE.format(name=name, extension=extension))
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = "".join(f"{key} = {value}\n" for key, value in points.items())
        (info / "entry_points.txt").write_text(f"[{group}]\n{lines}")
        invalidate_caches()

    yield put
    for name in [name for name in sys.modules if name.startswith("thirdparty_")]:
        del sys.modules[name]


@pytest.mark.parametrize("group", [EXPORTERS, IMPORTERS])
@pytest.mark.parametrize("spoil", ["", "1 / 0"])
def test_broken_plugins_leave_our_formats_usable(install, tmp_path, group, spoil):
    install("thirdparty_a", {"tasks": "thirdparty_a:EXPORTER"}, group=group)
    (tmp_path / "thirdparty_a.py").write_text(spoil)
    with pytest.raises(FormatError, match=r"'tasks' cannot .* 'thirdparty_a:EXPORTER'"):
        load(group, "tasks")
    assert sorted(loadable(group)) == [name for name in formats(group) if name != "tasks"]
    assert format_of("x.dot") == "dot"


def test_our_own_formats_are_known_and_an_unknown_one_lists_them():
    assert (exporter_names(), importer_names()) == (OURS, [importer("wfformat").name])
    for name in OURS:
        ending = exporter(name).extension
        assert exporter(name).name == format_of(f"folder/Some.Name{ending.upper()}") == name
    with pytest.raises(FormatError, match=r"'sga' among the exporters .*mean 's"):
        load(EXPORTERS, "sga")
    with pytest.raises(FormatError, match=r"the importers \(known: wfformat\)"):
        load(IMPORTERS, "xml")


def test_the_longest_ending_decides_on_the_format(install):
    install("thirdparty_a", {"tasks": "thirdparty_a:EXPORTER"}, extension=".json")
    assert format_of("x.saga.json") == "saga"
    assert format_of("x.json") == "tasks"
    install("thirdparty_b", {"two": "thirdparty_b:EXPORTER"}, extension=".dot")
    with pytest.raises(FormatError, match=r"'x\.dot' .* dot, two; give format="):
        format_of("x.dot")
