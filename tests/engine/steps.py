"""Tasks that the tests of the engine share, and a clock that goes on when it is told to."""

import pickle
from functools import partialmethod

from dagprofiler import DAG, Hook, Task
from dagprofiler._document.rounds import MEASURED
from dagprofiler.engine.log import RoundLog
from dagprofiler.measure.instruments import Readings


class Clock:
    """A clock that goes on when it is told to."""

    now = 1000.0

    def __call__(self):
        return self.now

    def passes(self, seconds):
        self.now += seconds


class Calls(Task):
    """Calls a function with the number of the call, counted from 0, and with its inputs."""

    def __init__(self, function, outputs=("x",), inputs=()):
        super().__init__()
        self.outputs, self.inputs = list(outputs), list(inputs)
        self.function, self.calls = function, -1

    def compute(self, cfg, **fields):
        self.calls += 1
        return self.function(self.calls, **fields)


def always(**outputs):
    return lambda _, **fields: outputs


class Timed(Calls):
    """Computes as long as it is told, round by round, the last for ever; codecs take 1 s, 4 s."""

    def __init__(self, clock, seconds=(2,), outputs=("x",), inputs=()):
        super().__init__(self._take, outputs, inputs)
        self.clock, self.seconds = clock, seconds

    def _take(self, call, **fields):
        self.clock.passes(self.seconds[min(call, len(self.seconds) - 1)])
        return dict.fromkeys(self.outputs, 1)

    def serialize(self, data):
        self.clock.passes(1)
        return pickle.dumps(data)

    def deserialize(self, data):
        self.clock.passes(4)
        return pickle.loads(data)


METHODS = [
    *("run_started", "task_started", "task_finished", "task_failed"),
    *("round_finished", "run_finished", "close"),
]


class Notes(Hook):
    """Writes down every call, and what was passed last; raises where it is told to."""

    def __init__(self, calls=None, fails_in=None, label="", error=OSError):
        self.calls = [] if calls is None else calls
        self.fails_in, self.error, self.label, self.got = fails_in, error, label, {}

    def note(self, method, what=None):
        self.got[method] = what
        named = [] if method.startswith("run_") or what is None else [getattr(what, "task", what)]
        self.calls.append((self.label + method, *named))
        if method == self.fails_in:
            raise self.error(method)


for _method in METHODS:
    setattr(Notes, _method, partialmethod(Notes.note, _method))


def log_of(*rounds, tasks="ab"):
    """Return the log of a run of tasks without edges, with these rounds for its own."""
    log = DAG(dict.fromkeys(tasks, Calls(always(), ""))).run()._tables.log
    log.rounds, log.started = list(rounds), 0.0
    for round_log in log.rounds:
        round_log.times += [None] * (6 * len(tasks) - len(round_log.times))
    return log


def a_round(*walls_s, kind=MEASURED, total_s=0.0, **metered):
    """Return a round of tasks with these times in compute(); None for a task that failed there.

    `metered` has each column's reading of each task.
    """
    ran_on = [0] * len(walls_s)
    round_log = RoundLog(kind, None, [], ran_on, [], started_s=0.0, total_s=total_s)
    for i, wall_s in enumerate(walls_s):
        if wall_s is None:
            round_log.times += [0.0, 0.0, 0.0, 1.0, None, None]
            round_log.note(i, error="ValueError: boom")
        else:
            round_log.times += [0.0, 0.0, 0.0, wall_s, wall_s, wall_s]
    round_log.columns = dict.fromkeys(metered, "")
    for i, values in enumerate(zip(*metered.values())):
        round_log.readings[i] = Readings([], [], list(values), None, {}, 0.0, 0.0)
    return round_log


def spent_ms(document):
    """Return all time that is in some figure: overhead, and the phases of all rounds."""
    phases = 0.0
    for _, _, _, _, *times in document["timeline"]["records"]:
        for start, end in zip(times[::2], times[1::2]):
            if end is not None:
                phases += end - start
    return phases + sum(document["run"]["overhead"].values())
