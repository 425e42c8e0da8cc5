"""SharedFile: a large value that processes of one machine pass in a file, not through a pipe."""

from __future__ import annotations

import mmap
import os
import pickle
import weakref
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dagprofiler._util import Value
from dagprofiler.serializers import Codec, FrameList, Frames, frames_bytes

#: From this size on a file costs less than a pipe.
SHARED_FILE_BYTES = 128 * 1024
#: From this size on it does for a value that several jobs read, such as the session of a round.
SHARED_INPUT_BYTES = 32 * 1024

#: Files in memory, on Linux.
_MEMORY = "/dev/shm"  # noqa: S108  (only this user can open the folders made there)
#: How much must be free there: containers have 64 MB by default.
_ROOM_BYTES = 1 << 30
_PREFIX = "dagprofiler-parcels-"
#: End of the names of folders that other runs remove unless a process holds their lock.
_SWEPT = "-run"

#: Descriptors of the folders that this process keeps locked.
_locks: set[int] = set()


@dataclass(eq=False)
class SharedFile:
    """The frames of one value in a file.

    Parameters
    ----------
    path
        The file.
    parts
        Of a list of frames, the length of each in bytes, and whether it was a bytes object and
        not another buffer; None for a value that is one bytes object.
    """

    path: str
    parts: list[tuple[int, bool]] | None

    @classmethod
    def of(cls, frames: Frames, folder: str) -> SharedFile:
        """Write frames to a new file in `folder`, which other hosts may write to as well.

        Raises
        ------
        OSError
            If there is no room; the file is removed.
        """
        from tempfile import mkstemp

        views = [memoryview(frame) for frame in (frames if isinstance(frames, list) else [frames])]
        descriptor, path = mkstemp(dir=folder)
        try:
            with open(descriptor, "wb") as file:
                file.writelines(view if view.c_contiguous else view.tobytes() for view in views)
        except OSError:
            _remove(path)
            raise
        parts = [(view.nbytes, isinstance(view.obj, bytes)) for view in views]
        return cls(path, parts if isinstance(frames, list) else None)

    def frames(self, decode: Codec) -> Any:
        """Return the frames for `decode`: views of the file, but bytes for bytes objects.

        Pickle also accepts a view for bytes, which saves a copy.
        """
        with open(self.path, "rb") as file:
            view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        if self.parts is None:
            return view if decode is pickle.loads else bytes(view)
        frames, start = FrameList(), 0
        for length, is_bytes in self.parts:
            frame = view[start : start + length]
            frames.append(bytes(frame) if is_bytes else frame)
            start += length
        return frames


def in_file_if_large(frames: Frames, folder: str | None, least_bytes: int) -> Frames | SharedFile:
    """Return frames as they are sent to another process: large ones in a new file in `folder`."""
    if folder is not None and frames_bytes(frames) >= least_bytes:
        # Without room for a file they are sent like small ones.
        with suppress(OSError):
            return SharedFile.of(frames, folder)
    return FrameList(frames) if type(frames) is list else frames


def removed_when_unused(handle: Value) -> Value:
    """Return a handle; the file of a :class:`SharedFile` is removed with the last reference to it.

    Called in the process that drives a run only: the copies in workers own no file.
    """
    if isinstance(handle, SharedFile):
        # At the exit of the program the whole folder is removed.
        weakref.finalize(handle, _remove, handle.path).atexit = False
    return handle


def _remove(path: str) -> None:
    # The file may have gone with its folder; Windows does not remove mapped files.
    with suppress(OSError):
        os.remove(path)


class SharedFiles:
    """A folder of shared files, created for one run and removed after it.

    The next run removes the folders in memory of killed processes.

    Parameters
    ----------
    within
        The parent folder; None for a folder in memory if the system has one with room.

    Attributes
    ----------
    folder
        Its path, with a random name.

    Raises
    ------
    OSError
        If it cannot be created.
    """

    def __init__(self, within: str | None = None) -> None:
        from tempfile import mkdtemp

        in_memory = within is None and _memory_has_room()
        self.folder = mkdtemp(prefix=_PREFIX, dir=_MEMORY if in_memory else within)
        self._lock = _locked(self.folder) if in_memory else None
        if self._lock is not None:
            _locks.add(self._lock)
            # From here on other runs may sweep it, but find it locked while this process lives.
            os.rename(self.folder, self.folder + _SWEPT)
            self.folder += _SWEPT
            _sweep()
        self._finalizer = weakref.finalize(self, _discard, self.folder)

    def close(self) -> None:
        """Remove the folder with all its files; an interrupted call leaves that to the exit."""
        _discard(self.folder)
        self._finalizer.detach()
        lock, self._lock = self._lock, None
        if lock is not None:
            _locks.remove(lock)
            os.close(lock)


def _discard(folder: str) -> None:
    """Remove a folder that workers may still be writing to."""
    from shutil import rmtree

    gone = f"{folder}-gone"
    # From here on they add no files. Windows does not rename an open folder.
    with suppress(OSError):
        os.rename(folder, gone)
    rmtree(gone, ignore_errors=True)
    rmtree(folder, ignore_errors=True)


def _locked(folder: str) -> int | None:
    """Lock a folder; return the descriptor that holds the lock, None if that is not possible."""
    import fcntl

    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def _sweep() -> None:
    """Remove the folders of killed runs, which otherwise occupy memory forever."""
    from glob import iglob
    from shutil import rmtree

    for folder in iglob(f"{_MEMORY}/{_PREFIX}*{_SWEPT}*"):
        lock = _locked(folder)
        if lock is not None:
            rmtree(folder, ignore_errors=True)
            os.close(lock)


def _forget_locks() -> None:
    """Leave the locks to the parent of this forked process, which may outlive it."""
    while _locks:
        os.close(_locks.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)


def _memory_has_room() -> bool:
    """Tell whether there is a folder in memory, and room in it."""
    with suppress(OSError, AttributeError):
        state = os.statvfs(_MEMORY)
        return state.f_bavail * state.f_frsize >= _ROOM_BYTES and os.access(_MEMORY, os.W_OK)
    return False
