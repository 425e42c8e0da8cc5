"""Parcels: large values that processes of one machine hand over in files, not through a pipe."""

from __future__ import annotations

import mmap
import os
import pickle
import weakref
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

from dagprofiler.serializers import FrameList

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dagprofiler.pipeline import Codec

__all__ = ["Parcel", "Parcels"]

#: From here on a file costs less than a pipe.
PARCEL_BYTES = 128 * 1024

#: Where files are memory, on Linux.
_MEMORY = "/dev/shm"  # noqa: S108  (what is made there is a folder that only its maker can open)
#: What has to be free there: containers have 64 MB of it by default.
_ROOM_BYTES = 1 << 30

_PREFIX = "dagprofiler-values-"
_YOUNG_S = 60.0

_numbers = count()


class Parcel:
    """The frames of one value in a file. The file goes when its owner lets go of the parcel.

    Parameters
    ----------
    path
        The file.
    lengths
        How long each frame is, in bytes; negative of a frame that is no bytes
        object but another buffer.
    whole
        Whether the value is one frame and not a list of them.
    """

    __slots__ = ("__weakref__", "lengths", "path", "whole")

    def __init__(self, path: str, lengths: Sequence[int], *, whole: bool) -> None:
        self.path = path
        self.lengths = lengths
        self.whole = whole

    def __reduce__(self) -> tuple[Any, ...]:
        return _parcel, (self.path, self.lengths, self.whole)

    @classmethod
    def of(cls, frames: Any, folder: str) -> Parcel:
        """Write frames to a new file in `folder`.

        Raises
        ------
        OSError
            If there is no room for them; nothing of them is left then.
        """
        path = os.path.join(folder, f"{os.getpid()}-{next(_numbers)}")
        parts = frames if isinstance(frames, list) else [frames]
        views = [memoryview(part) for part in parts]
        try:
            with open(path, "xb") as file:
                file.writelines(view if view.c_contiguous else view.tobytes() for view in views)
        except OSError:
            _remove(path)
            raise
        lengths = [
            view.nbytes if isinstance(part, bytes) else -view.nbytes
            for part, view in zip(parts, views)
        ]
        return cls(path, lengths, whole=parts is not frames)

    def own(self) -> None:
        """Remove the file when nobody refers to this object any more."""
        weakref.finalize(self, _remove, self.path)

    def frames(self, decode: Codec) -> Any:
        """Return the frames for `decode`: views of the file, but bytes where bytes went in.

        Pickle reads bytes from a view as well, which spares a copy.
        """
        with open(self.path, "rb") as file:
            view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        if self.whole:
            return view if decode is pickle.loads else bytes(view)
        frames, start = FrameList(), 0
        for length in self.lengths:
            frame = view[start : start + abs(length)]
            start += abs(length)
            frames.append(bytes(frame) if length >= 0 else frame)
        return frames


def _parcel(path: str, lengths: Sequence[int], whole: bool) -> Parcel:  # noqa: FBT001  (pickle's)
    return Parcel(path, lengths, whole=whole)


def _remove(path: str) -> None:
    # The whole folder may be gone; Windows keeps what is still mapped until then.
    with suppress(OSError):
        os.remove(path)


class Parcels:
    """A folder of parcels, made for one run and removed with it.

    Parameters
    ----------
    within
        The folder to make it in; if None, one in memory where the system has
        such a place with room.

    Attributes
    ----------
    folder
        Its path, with a name drawn at random.
    """

    def __init__(self, within: str | None = None) -> None:
        import tempfile

        place = _roomy() if within is None else within
        self._folder = tempfile.TemporaryDirectory(prefix=_PREFIX, dir=place)
        self.folder = self._folder.name
        self._release: Callable[[], Any] = bool
        if within is None:
            with suppress(OSError, ImportError):
                self._release = weakref.finalize(self, os.close, _held(self.folder))
                _sweep(os.path.dirname(self.folder))

    def close(self) -> None:
        """Remove the folder with all that is in it."""
        with suppress(OSError):
            self._folder.cleanup()
        self._release()


def _held(folder: str) -> int:
    """Return a descriptor that shows, as long as it is open, that a folder of ours is in use.

    Raises
    ------
    OSError
        If it is in use already, or is another user's.
    ImportError
        Where the system has no such locks.
    """
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(folder)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _sweep(place: str) -> None:
    """Remove the folders of runs that were killed: what is in memory stays there otherwise."""
    import shutil
    from time import time

    for one in os.scandir(place):
        with suppress(OSError):
            # A younger one may have been made, and not be held yet.
            if one.name.startswith(_PREFIX) and time() - one.stat().st_mtime > _YOUNG_S:
                descriptor = _held(one.path)
                shutil.rmtree(one.path, ignore_errors=True)
                os.close(descriptor)


def _roomy() -> str | None:
    """Return the place in memory, if there is one with room."""
    with suppress(OSError, AttributeError):
        state = os.statvfs(_MEMORY)
        if state.f_bavail * state.f_frsize >= _ROOM_BYTES and os.access(_MEMORY, os.W_OK):
            return _MEMORY
    return None
