import os
import subprocess
import sys


def command(*arguments, cwd, code=None, **options):
    """Run the command in a process of its own, as a shell does."""
    done = subprocess.run(
        [sys.executable, "-m", "dagprofiler", *map(str, arguments)],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
        **options,
    )
    if code is not None:
        assert done.returncode == code, (done.stdout, done.stderr)
    return done


def environment():
    """Return the environment of a command: it finds this checkout, and has no colours."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}
