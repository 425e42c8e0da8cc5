"""What a file from a stranger can do when it is loaded, as docs/security.md says: run nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dagprofiler import DAG
from dagprofiler.errors import GraphError

DATA = Path(__file__).resolve().parent / "data"

#: Texts that another program would execute.
CODE = [
    "__import__('os').system('touch executed')",
    "<script>document.title = 'executed'</script>",
    "$(touch executed)",
    "cos\nsystem\n(S'touch executed'\ntR.",
    "=cmd|'/C touch executed'!A0",
]

#: Prints what Python audits, of all that starts programs, connects or unpickles, while it runs the
#: code on standard input.
AUDITED = """
import sys
watched = ("subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.", "pickle.")
events = []
sys.addaudithook(lambda event, _: events.append(event) if event.startswith(watched) else None)
exec(sys.stdin.read())
print(*sorted({*events}))
"""


def audited(code, folder):
    """Return the events of code in a process of its own."""
    command = [sys.executable, "-c", AUDITED]
    options = {"stdout": subprocess.PIPE, "text": True, "cwd": folder}
    return subprocess.run(command, input=code, check=True, **options).stdout.split()


def test_loading_exporting_and_reporting_a_profile_runs_nothing(tmp_path):
    document = json.loads((DATA / "complete-profile.json").read_text("utf-8"))
    document["configuration"] = {f"p{i}": text for i, text in enumerate(CODE)}
    document["metadata"]["hostname"] = CODE[1]
    files = {"$ref": "file:///etc/passwd"}
    document["unknown"] = {"py/object": "os.system", "__reduce__": CODE, **files}
    (tmp_path / "p.json").write_text(json.dumps(document), encoding="utf-8")
    (tmp_path / "pickle.json").write_text(CODE[3], encoding="utf-8")
    code = """
from contextlib import suppress
from dagprofiler import Profile, ProfileError, analyze
with suppress(ProfileError):
    Profile.load("pickle.json")
profile = Profile.load("p.json")
text = repr(profile), str(profile), str(profile.compare(profile)), str(analyze(profile, fill=0))
profile.export("p.saga.json", fill=0, fill_size=0)
for name in ("p.csv", "p.dot", "p.graphml", "p.mmd", "p.trace.json"):
    profile.export(name)
profile.report("p.html")
"""
    assert audited(code, tmp_path) == []
    assert "executed" not in {path.name for path in tmp_path.iterdir()}
    assert CODE[1] not in (tmp_path / "p.html").read_text("utf-8")


def test_merging_a_trace_and_importing_an_instance_run_nothing(tmp_path):
    events = [
        {"ph": "X", "name": text, "cat": text, "ts": 1, "dur": 1, "pid": 1, "tid": 1}
        for text in CODE
    ]
    (tmp_path / "a.pfw").write_text(json.dumps(events), encoding="utf-8")
    instance = DATA / "wfformat" / "v15.json"
    code = f"""
from dagprofiler import import_profile, tracing
tracing.merge(["a.pfw"], "merged.pfw")
import_profile({str(instance)!r}, format="wfformat")
"""
    assert audited(code, tmp_path) == []


@pytest.mark.parametrize("tag", ["object/apply:os.system", "name:os.system", "module:antigravity"])
def test_yaml_makes_no_objects(tmp_path, tag):
    pytest.importorskip("yaml")
    path = tmp_path / "dag.yaml"
    path.write_text(f"config:\n  x: !!python/{tag} ['touch executed']\n", encoding="utf-8")
    with pytest.raises(GraphError, match="not YAML"):
        DAG.from_yaml(path)
