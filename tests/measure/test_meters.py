import errno
import gc
import mmap
import os
import pickle
import re
import sys
import time
import tracemalloc
from fractions import Fraction
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from dagprofiler.errors import ValidationError
from dagprofiler.measure import meters as metering
from dagprofiler.measure.meters import ALLOCATION, MeterSet, select

FULL_COLUMNS = [
    *("delay_ms", "cpu_ms", "instructions", "process_cpu_ms", "children_cpu_ms", "page_faults"),
    *("voluntary_switches", "involuntary_switches", "read_bytes", "written_bytes", "gc_ms"),
    *("resident_before_bytes", "peak_memory_bytes", "kernel_ms"),
]
OF_PROC = ["delay", "read_bytes", "written_bytes", "resident_before", "peak_memory"]
MIB = 2**20


class Own:
    """A user's meter that returns, or raises, what the test says."""

    reason = None

    def __init__(self, *results, name="own", unit="1", start=None, log=None):
        self.name, self.unit = name, unit
        self._results = iter(results)
        self._start = iter(start or ())
        self._log = [] if log is None else log

    def start(self):
        self._log.append(f"{self.name} starts")
        failure = next(self._start, None)
        if failure is not None:
            raise failure

    def stop(self):
        self._log.append(f"{self.name} stops")
        result = next(self._results, 0)
        if isinstance(result, BaseException):
            raise result
        return result


def measure(chosen, *tasks, proc="/proc"):
    """Return the columns of the last of some tasks, and the reasons."""
    opened = MeterSet(chosen if chosen is ALLOCATION else select(chosen), proc)
    try:
        for number, work in enumerate(tasks):
            opened.start()
            work()
            values = opened.stop(f"t{number}")
        return dict(zip(opened.columns, values)), opened.reasons
    finally:
        opened.close()


def value_of(name, work):
    """Return what a meter says of some work; skip if it does not work here."""
    values, reasons = measure(name, work)
    ((column, value),) = values.items()
    if value is None:
        pytest.skip(reasons[column])
    return value


def nothing():
    pass


def fill(size_mib):
    """Touch memory that is the kernel's before and after, whatever the allocator has kept."""
    with mmap.mmap(-1, size_mib * MIB) as memory:
        np.frombuffer(memory, dtype=np.uint8)[:] = 1


def test_allocation_is_in_no_set_of_meters():
    assert select("default").columns == ["delay_ms", "cpu_ms", "kernel_ms"]
    assert select("full").columns == FULL_COLUMNS
    assert not select("full").allocation
    chosen = select(["allocation", "cpu"])
    assert chosen.allocation
    assert chosen.columns == ["cpu_ms"]
    assert ALLOCATION.columns == ["allocation_bytes"]
    # The unit stands in a column once.
    assert select(Own(name="bytes", unit="bytes")).columns == ["bytes_bytes"]
    assert select(Own(name="faults", unit="")).columns == ["faults"]
    # Users' meters come last, in their own order.
    second, first = Own(name="second"), Own(name="first")
    assert select([second, "cpu", first]).columns == ["cpu_ms", "second", "first"]
    assert pickle.loads(pickle.dumps(select(["full", "allocation"]))).columns == FULL_COLUMNS


POWER = Own(name="power", unit="W")


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        ("defualt", "'defualt' is unknown (known: wall, default, full, delay, cpu,"),
        ("defualt", ", allocation); did you mean 'default'?"),
        *((value, f"start() and stop(), got {value!r}") for value in (None, 3)),
        *(
            ([value], "an object with name, unit (texts), start() and")
            for value in (SimpleNamespace(), Own, Own(name=3))
        ),
        ([POWER, POWER], "column 'power_W' has a meter already"),
        *((Own(name=name, unit="ms"), f"column '{name}_ms' has") for name in ("wall", "cpu")),
    ],
)
def test_an_invalid_meter_is_named(chosen, told):
    with pytest.raises(ValidationError, match=re.escape(told)):
        select(chosen)


@pytest.mark.parametrize("chosen", ["read_bytes", "written_bytes", "full"])
def test_io_is_counted_to_the_byte(chosen, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(5000))

    def work():
        fd = os.open(path, os.O_RDWR)
        os.read(fd, 1234)
        os.write(fd, bytes(321))
        os.close(fd)

    measured = [measure(chosen, nothing, work) for _ in range(10)]
    for column, expected in (("read_bytes", 1234), ("written_bytes", 321)):
        counts = [values[column] for values, _ in measured if values.get(column) is not None]
        # Now and then threads of the test runner read or write, too.
        assert min(counts, default=expected) == expected


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_children_count_once_they_were_waited_for():
    resource = pytest.importorskip("resource")
    seen = []

    def look():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        seen.append((usage.ru_utime + usage.ru_stime) * 1e3)

    def work():
        look()
        for _ in range(2):
            child = os.fork()
            if child == 0:
                sum(range(300_000))
                os._exit(0)
            os.waitpid(child, 0)
        look()

    assert value_of("children_cpu", work) == pytest.approx(seen[-1] - seen[0], abs=2e-3)


def test_collections_page_faults_and_waits_are_counted():
    assert value_of("gc", gc.collect) > 0
    assert value_of("page_faults", lambda: fill(1)) >= 1
    assert value_of("voluntary_switches", lambda: time.sleep(0.001)) >= 1


@pytest.mark.parametrize("earlier_mib", [0, 90])
def test_peak_memory_is_what_the_task_added_whatever_came_before(earlier_mib):
    values, reasons = measure("peak_memory", lambda: fill(earlier_mib + 1), lambda: fill(30))
    if "peak_memory_bytes" in reasons:
        pytest.skip(reasons["peak_memory_bytes"])
    # The kernel counts pages in batches, and a busy machine may take some from before.
    assert values["peak_memory_bytes"] == pytest.approx(30 * MIB, rel=0.25)


RESET = "the mark of the peak was reset while the task ran"


@pytest.mark.parametrize("chosen", [select("peak_memory"), ALLOCATION], ids=["memory", "Python"])
def test_a_peak_that_another_task_cut_is_not_known(chosen):
    one, two = MeterSet(chosen), MeterSet(chosen)
    if one.reasons:
        pytest.skip(str(one.reasons))
    one.start()
    two.start()
    assert [type(value) for value in two.stop("two")] == [int]
    assert one.stop("one") == [None]
    assert one.reasons == dict.fromkeys(chosen.columns, RESET)
    one.close()
    two.close()
    tracemalloc.start()
    try:
        values, reasons = measure(ALLOCATION, tracemalloc.clear_traces)
        assert (values["allocation_bytes"], reasons) == (None, {"allocation_bytes": RESET})
    finally:
        tracemalloc.stop()


def compute(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def test_the_lock_is_held_by_python_code_and_not_by_sleep():
    # Of several, those that other programs disturb least.
    held, free = (
        [measure("gil", partial(work, 0.05))[0]["gil_ms"] or 0.0 for _ in range(5)]
        for work in (compute, time.sleep)
    )
    assert max(held) > 4 * min(free)
    assert max(held) >= 25
    # Too short for a look at the lock: unknown, not 0.
    tries = [measure("gil", nothing) for _ in range(50)]
    reasons = [reasons["gil_ms"] for values, reasons in tries if values == {"gil_ms": None}]
    assert "before a look" in reasons[0]


def test_the_lock_is_not_watched_where_threads_wake_too_late(monkeypatch):
    monkeypatch.setattr(sys, "getswitchinterval", lambda: 1e-6)
    assert "too late" in measure("gil", nothing)[1]["gil_ms"]
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert measure("gil", nothing)[1] == {"gil_ms": "this interpreter has no global lock"}


@pytest.mark.parametrize("before_mib", [0, 5])
def test_allocation_is_the_peak_over_the_start(before_mib):
    assert not tracemalloc.is_tracing()
    if before_mib:
        tracemalloc.start()
    kept = [bytearray(MIB)]
    bytearray(before_mib * MIB)

    def work():
        kept.append(bytearray(MIB))
        bytearray(2 * MIB)
        kept.pop()

    try:
        values, reasons = measure(ALLOCATION, work)
        # Threads of the test runner allocate, too.
        assert values["allocation_bytes"] == pytest.approx(3 * MIB, rel=0.1)
        assert reasons == {}
        assert tracemalloc.is_tracing() == bool(before_mib)
    finally:
        tracemalloc.stop()


SCHEDSTAT = "thread-self/schedstat"
PEAK = {"self/clear_refs": "", "self/status": "VmHWM:\t 50 kB\n"}


@pytest.mark.parametrize(
    ("name", "files", "after", "value", "reason"),
    [
        *((name, {}, None, None, os.strerror(errno.ENOENT)) for name in OF_PROC),
        ("delay", {SCHEDSTAT: "0 0 0\n"}, "", None, "CONFIG_SCHED_INFO"),
        # Field two, in nanoseconds.
        ("delay", {SCHEDSTAT: "9 1000000 7\n"}, "99 3500000 9\n", 2.5, ""),
        ("peak_memory", PEAK, "VmHWM:\t 5 kB\n", None, "the mark of the peak was reset"),
        ("peak_memory", {**PEAK, "self/status": "VmRSS:\t 5 kB\n"}, "", None, "no mark of peak"),
        ("peak_memory", {"self/clear_refs": None}, None, None, os.strerror(errno.EISDIR)),
        ("resident_before", {"self/statm": None}, None, None, "cannot be opened: IsADirectory"),
    ],
)
def test_files_of_the_kernel_that_say_no_quantity_give_a_reason(
    name, files, after, value, reason, tmp_path
):
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).mkdir() if text is None else (tmp_path / path).write_text(text)

    def work():
        if after is not None:
            (tmp_path / path).write_text(after)

    values, reasons = measure(name, nothing, work, proc=str(tmp_path))
    assert [*values.values()] == [value]
    assert [*reasons] == [*values] * (value is None)
    assert reason in "".join(reasons.values())


def test_what_a_system_cannot_measure_is_null_with_the_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "resource", None)
    values, reasons = measure(["page_faults", "children_cpu"], nothing)
    assert [*values.values()] == [None, None]
    assert all("cannot be opened: ModuleNotFoundError" in reason for reason in reasons.values())


@pytest.mark.parametrize(
    ("returned", "value", "reason"),
    [
        *((value, value, "") for value in (3, -2.5)),
        *((np.int16(7), 7, ""), (Fraction(1, 4), 0.25, "")),
        *((odd, None, f"{odd!r}, expected a finite") for odd in (float("nan"), True, "3", 2**63)),
        ([1.0], None, "task 't0': stop() returned [1.0], expected a finite number"),
        (None, None, "no sensor here"),
        (ValueError("boom"), None, "stop() raised ValueError: boom"),
    ],
)
def test_what_a_meter_returns_is_a_plain_number_or_a_reason(returned, value, reason):
    meter = Own(returned)
    meter.reason = reason if "sensor" in reason else ""
    values, reasons = measure(meter, nothing)
    assert values == {"own": value}
    assert type(values["own"]) is type(value)
    assert [*reasons] == ["own"] * (value is None)
    assert reason in reasons.get("own", "")


def test_a_meter_whose_stop_is_interrupted_is_not_stopped_again():
    stops = []

    def stop():
        stops.append("stop")
        raise KeyboardInterrupt

    own = SimpleNamespace(name="own", unit="1", start=lambda: None, stop=stop)
    meters = MeterSet(select([own]))
    meters.start()
    with pytest.raises(KeyboardInterrupt):
        meters.stop("a")
    meters.close()
    assert stops == ["stop"]


def test_meters_stop_in_reverse_order_if_they_started():
    log = []
    fails = Own(5, name="a", log=log, start=[ValueError("boom")])
    opened = MeterSet(select([fails, Own(name="b", log=log)]))
    opened.start()
    log.append("task")
    assert opened.stop("x") == [None, 0]
    assert opened.reasons == {"a": "task 'x': start() raised ValueError: boom"}
    assert log == ["b starts", "a starts", "task", "b stops"]
    # The next task is measured again.
    log.clear()
    opened.start()
    assert opened.stop("y") == [5, 0]
    assert log == ["b starts", "a starts", "a stops", "b stops"]


@pytest.mark.parametrize(
    ("results", "value", "reason"),
    [
        # A trial that fails gives no reason for a null that is not there.
        ([0, None, 10, 10, 10, 10, 100], 90, ""),
        ([*[10] * 6, 9], None, "less than the meters themselves use"),
    ],
)
def test_instructions_of_the_meters_are_not_counted(monkeypatch, results, value, reason):
    meter = metering.BUILT_IN["instructions"]._replace(open=lambda _: Own(*results))
    monkeypatch.setitem(metering.BUILT_IN, "instructions", meter)
    values, reasons = measure("instructions", nothing)
    assert values == {"instructions": value}
    assert reason in reasons.get("instructions", "")
    assert bool(reasons) == (value is None)
