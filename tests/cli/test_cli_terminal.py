import re
import sys
from pathlib import Path

import pytest
from cli_runner import environment

from dagprofiler import Profile

pexpect = pytest.importorskip("pexpect")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no such terminal")


@pytest.fixture
def terminal(shelf):
    """Return a function that starts the command in a terminal of 80 columns."""
    started = []

    def start(*arguments, **more):
        how = {"cwd": str(shelf.folder), "env": {**environment(), "TERM": "xterm", **more}}
        how.update(dimensions=(24, 80), encoding="utf-8", timeout=60)
        child = pexpect.spawn(sys.executable, ["-m", "dagprofiler", *arguments], **how)
        started.append(child)
        return child

    yield start
    for child in started:
        child.close(force=True)


def ended(child):
    """Wait for the end; return what was still printed, without colours, and the exit code."""
    child.expect(pexpect.EOF)
    child.close()
    return re.sub(r"\x1b\[[\d;]*m", "", child.before), child.exitstatus


def test_progress_is_drawn_and_goes_away(terminal, shelf):
    child = terminal("run", shelf.target, "--rounds", "3", "--eta-from", shelf.profile)
    child.expect(r"0 of 3 tasks \| round 1 of 5 \| \d\.\d s, \d\.\d s left")
    rest, code = ended(child)
    assert code == 0
    # The line is erased, and what is said of the run begins there.
    assert "tasks" not in rest.split("\x1b[2K")[-1].split("pipeline_of_tests.py:dag, 3 tasks")[0]
    rest, code = ended(terminal("run", shelf.target, "-q"))
    assert (rest, code) == ("", 0)


def test_ctrl_c_saves_the_partial_profile_and_says_where(terminal, shelf, folder):
    target = "pipeline_of_tests.py:waiting"
    child = terminal("run", target, "--executor", "processes:2", "-o", f"{folder}/p.json")
    child.expect("2 of 3 tasks.*waits for 0.")
    child.sendintr()
    rest, code = ended(child)
    assert code == 130
    # Over the line of progress and the ^C.
    assert "\rdagprofiler: stopping; saving what was measured, Ctrl-C again to give up " in rest
    said = f"dagprofiler: interrupted; measured: 0 complete rounds in {folder}/p.partial.json"
    assert "".join(rest.split()).endswith("".join(said.split()))
    profile = Profile.load(f"{folder}/p.partial.json")
    assert profile.sections["run"]["state"] == "partial"
    assert not Path(folder, "p.json").exists()


def test_tables_fit_the_terminal(terminal, shelf, written):
    name = "read" * 40
    text = Profile.load(shelf.profile).dumps()
    text = text.replace('"read"', f'"{name}"').replace('"read->add"', f'"{name}->add"')
    rest, code = ended(terminal("show", written("long.json", text), "--part", "tasks"))
    assert code == 0
    assert "readread...adread" in rest or "..." in rest
    assert max(map(len, rest.splitlines())) <= 80


@pytest.mark.slow
def test_colours_are_those_of_rich_and_can_be_refused(terminal, shelf):
    pytest.importorskip("rich")
    child = terminal("show", "no_such.json")
    child.expect(pexpect.EOF)
    assert "\x1b[1;31mdagprofiler: " in child.before
    child = terminal("show", "no_such.json", NO_COLOR="1")
    child.expect(pexpect.EOF)
    assert "\x1b[" not in child.before
