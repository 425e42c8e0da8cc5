import os
import subprocess
import sys


def python(*words, **options):
    """Run Python in a process of its own, which finds this checkout."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment()}
    options = {**pipes, "encoding": "utf-8", "timeout": 120, **options}
    return subprocess.run([sys.executable, *map(str, words)], check=False, **options)


def command(*arguments, code=None, **options):
    """Run the command in a process of its own, as a shell does."""
    done = python("-m", "dagprofiler", *arguments, **options)
    if code is not None:
        assert done.returncode == code, (done.stdout, done.stderr)
    return done


def environment():
    """Return the environment of a command: it finds this checkout, and has no colours."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}
