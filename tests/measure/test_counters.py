import errno
import mmap
import os
import subprocess
import sys
import threading

import pytest

from dagprofiler.measure import kernel as counters
from dagprofiler.measure.kernel import (
    INSTRUCTIONS,
    EventCounter,
    KernelFiles,
    UnavailableError,
)

#: Every machine counts them.
PAGE_FAULTS = (1, 2)
PAGES = 500


class FakeFiles(KernelFiles):
    """Threads that open counters or fail to."""

    def __init__(self, threads, *, fails=None, readings=()):
        super().__init__()
        self.listed, self.fails, self.readings = threads, fails, iter(readings)
        self.opened = []

    def threads(self):
        return self.listed

    def open_counter(self, attributes, thread):
        if self.fails is not None:
            raise OSError(self.fails, "as the test has it")
        self.opened.append(thread)
        return len(self.opened)

    def read_counter(self, fd):
        assert 1 <= fd <= len(self.opened)
        return next(self.readings)


@pytest.fixture
def page_faults():
    """Counts page faults, which every machine can, unless that is forbidden."""
    files = KernelFiles()
    try:
        yield EventCounter(files, PAGE_FAULTS)
    except UnavailableError as reason:
        pytest.skip(str(reason))
    finally:
        files.close()


def touch():
    with mmap.mmap(-1, PAGES * mmap.PAGESIZE) as memory:
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(PAGES):
            memory[page * mmap.PAGESIZE] = 1


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOENT, "no hardware counters on this machine"),
        (errno.EPERM, "the kernel refuses the counter (Operation not permitted)"),
        (errno.EACCES, "forbidden (perf_event_paranoid = 3)"),
    ],
    ids=lambda value: errno.errorcode[value] if isinstance(value, int) else "",
)
def test_a_counter_that_cannot_be_opened_says_why(number, reason, tmp_path, monkeypatch):
    (tmp_path / "paranoid").write_text("3\n")
    monkeypatch.setattr(counters, "_PARANOID", str(tmp_path / "paranoid"))
    with pytest.raises(UnavailableError) as raised:
        EventCounter(FakeFiles([10], fails=number))
    assert reason in str(raised.value)


def test_each_thread_has_a_counter():
    files = FakeFiles([11, 10])
    EventCounter(files)
    assert files.opened == [10, 11]


@pytest.mark.usefixtures("page_faults")
def test_counters_and_files_are_closed_together():
    before = {*os.listdir("/proc/self/fd")}
    files = KernelFiles()
    EventCounter(files, PAGE_FAULTS)
    files.open("self/io")
    assert len({*os.listdir("/proc/self/fd")} - before) >= 2
    files.close()
    assert {*os.listdir("/proc/self/fd")} <= before


#: No code runs without instructions, whatever the machine says of the time.
NOTHING = [(0, 100, 100), (0, 200, 200)]


@pytest.mark.parametrize(
    ("event", "threads", "readings", "count"),
    [
        (INSTRUCTIONS, 2, [(1000, 50, 50), (7, 20, 20), (1500, 90, 90), (19, 30, 30)], 512),
        # What it missed before the start is no part of the count.
        (INSTRUCTIONS, 1, [(0, 10, 4), (100, 20, 14)], 100),
        (INSTRUCTIONS, 1, [(0, 0, 0), (100, 10, 4)], None),
        (INSTRUCTIONS, 1, NOTHING, None),
        (PAGE_FAULTS, 1, NOTHING, 0),
    ],
)
def test_a_count_is_the_sum_over_threads_that_ran_all_the_time(event, threads, readings, count):
    counter = EventCounter(FakeFiles(range(threads), readings=readings), event)
    counter.start()
    assert counter.stop() == count
    assert ("did not run all the time" in (counter.reason or "")) == (count is None)


def test_page_faults_of_new_threads_are_counted_once(page_faults):
    page_faults.start()
    touch()
    for _ in range(3):
        thread = threading.Thread(target=touch)
        thread.start()
        thread.join()
    assert 4 * PAGES <= page_faults.stop() < 5 * PAGES


@pytest.mark.usefixtures("page_faults")
def test_threads_that_ran_before_are_counted():
    meet = threading.Barrier(3)

    def work():
        meet.wait()
        touch()
        meet.wait()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    files = KernelFiles()
    counter = EventCounter(files, PAGE_FAULTS)
    counter.start()
    meet.wait()
    meet.wait()
    assert 2 * PAGES <= counter.stop() < 3 * PAGES
    # Of threads that have ended, what they counted stays.
    for thread in threads:
        thread.join()
    assert 2 * PAGES <= counter.stop() < 3 * PAGES
    files.close()


def test_instructions_follow_the_work():
    # In a process of its own: threads that others left here would count, too.
    code = """
from itertools import repeat
from dagprofiler.measure.kernel import EventCounter, KernelFiles, UnavailableError
def instructions(count):
    counter.start()
    for _ in repeat(None, count):
        pass
    return counter.stop()
try:
    counter = EventCounter(KernelFiles())
    print(*(min(instructions(count) for _ in range(20)) for count in (0, 50_000, 100_000)))
except (UnavailableError, TypeError) as reason:
    print("none:", reason)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    if done.stdout.startswith("none:"):
        pytest.skip(done.stdout)
    base, once, twice = map(int, done.stdout.split())
    assert (twice - base) / (once - base) == pytest.approx(2, rel=0.05)
