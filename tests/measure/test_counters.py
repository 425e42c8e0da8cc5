import errno
import mmap
import os
import subprocess
import sys
import threading

import pytest
from platforms import posix

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
    """Threads with these numbers, and readings of their counters."""

    def __init__(self, threads, readings=()):
        super().__init__()
        self.listed, self.readings = threads, iter(readings)

    def threads(self):
        return self.listed

    def read_counter(self, fd):
        return next(self.readings)


@pytest.fixture
def opened(monkeypatch):
    """Return the threads for which a counter was opened: a descriptor of a file, not of a counter.

    A thread whose number is above 1000 cannot have one: the rest is the number of the error.
    """
    threads = []

    def opens(_, thread):
        if thread > 1000:
            raise OSError(thread - 1000, "as the test has it")
        threads.append(thread)
        return os.open(os.devnull, os.O_RDONLY)

    monkeypatch.setattr(counters, "_perf_event_open", opens)
    return threads


def descriptors():
    return {*os.listdir("/dev/fd")}


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
@pytest.mark.usefixtures("opened")
def test_a_counter_that_cannot_be_opened_says_why(number, reason, tmp_path, monkeypatch):
    (tmp_path / "paranoid").write_text("3\n")
    monkeypatch.setattr(counters, "_PARANOID", str(tmp_path / "paranoid"))
    with pytest.raises(UnavailableError) as raised:
        EventCounter(FakeFiles([1000 + number]))
    assert reason in str(raised.value)


@posix
def test_each_thread_has_a_counter_until_all_are_closed(opened):
    before, files = descriptors(), FakeFiles([11, 10])
    EventCounter(files)
    assert opened == [10, 11]
    assert len(descriptors() - before) == 2
    files.close()
    assert descriptors() <= before
    # If one thread cannot have a counter, the others keep none.
    with pytest.raises(UnavailableError):
        EventCounter(FakeFiles([12, 1000 + errno.EMFILE]))
    assert opened == [10, 11, 12]
    assert descriptors() <= before


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
@pytest.mark.usefixtures("opened")
def test_a_count_is_the_sum_over_threads_that_ran_all_the_time(event, threads, readings, count):
    counter = EventCounter(FakeFiles(range(threads), readings), event)
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
