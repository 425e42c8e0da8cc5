"""The file of one process: strict JSON after every write, so that a kill costs the last moment.

The text ends with a tail that closes all brackets. What comes next is written over the tail,
with a new one at its end, in a single call of the system.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dagprofiler.files import open_untricked, replaced, replacing
from dagprofiler.tracing.events import encode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["SECTION", "TraceFile"]

#: The member of the document, beside what Chrome's format has, that says how it ended.
SECTION = "dagprofiler"

#: Least length of the tail: a full disk then has room for one that says what was lost, and why.
_TAIL_BYTES = 192


class TraceFile:
    """A trace that grows.

    Parameters
    ----------
    path
        Where it is written; a file that is there is replaced at the first write. A symbolic link
        is followed within its folder, and refused if it leads elsewhere.
    header
        What stands in it under ``otherData``, as JSON holds it.
    """

    def __init__(self, path: str, header: Mapping[str, Any]) -> None:
        self.path = path
        self._header = header
        self._descriptor = -1
        #: Where the tail begins.
        self._end = 0
        self._empty = True
        #: Whether a write has begun and not ended.
        self._torn = False

    @property
    def is_open(self) -> bool:
        """Whether something has been written."""
        return self._descriptor >= 0

    def write(self, events: Sequence[str], **ending: Any) -> None:
        """Append events, each a line, and say how the file ends.

        Raises
        ------
        OSError
            If they could not be written; the file is then what it was before, if the system
            lets it be.
        """
        if not self.is_open:
            self._open()
        text = "" if self._end else self._head()
        if events:
            text += ("\n" if self._empty else ",\n") + ",\n".join(events)
        # Half a surrogate pair, which UTF-8 cannot hold, has a form in JSON.
        content = text.encode("utf-8", "backslashreplace")
        tail = f'\n], "{SECTION}": {encode(ending)}'.encode().ljust(_TAIL_BYTES) + b"}\n"
        if self._torn:
            # An interrupt of the program came in the midst of the last one.
            os.ftruncate(self._descriptor, self._end)
        self._torn = True
        try:
            self._put(self._end, content + tail)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._end)
                self._put(self._end, tail if self._end else b"")
            if not self._end:
                self.abandon()
            raise
        self._end += len(content)
        self._empty = self._empty and not events
        if not events:
            # The tail may have become shorter.
            os.ftruncate(self._descriptor, self._end + len(tail))
        self._torn = False

    def abandon(self) -> None:
        """Let go of the file as it is; where the process was forked, it is its parent's."""
        if self.is_open:
            with suppress(OSError):
                os.close(self._descriptor)
        self._descriptor = -1

    def _open(self) -> None:
        folder = os.path.dirname(self.path)
        os.makedirs(folder, exist_ok=True)
        path = os.path.realpath(self.path)
        if os.path.dirname(path) != os.path.realpath(folder):
            # Anybody may have put it there: the names of traces can be guessed.
            raise OSError(errno.ELOOP, "Is a link that leads out of its folder", self.path)
        if replaced(self.path) is not None:
            with replacing(path):
                """Empty at first."""
        self._end, self._empty, self._torn = 0, True, False
        self._descriptor = open_untricked(path, os.O_WRONLY)

    def _head(self) -> str:
        return f'{{"displayTimeUnit": "ms", "otherData": {encode(self._header)}, "traceEvents": ['

    def _put(self, place: int, content: bytes) -> None:
        os.lseek(self._descriptor, place, os.SEEK_SET)
        left = memoryview(content)
        while left:
            left = left[os.write(self._descriptor, left) :]
