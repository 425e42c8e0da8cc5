"""Writing files: whole, or not at all."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, Any

#: Ending of the names of files that are compressed.
COMPRESSED = ".gz"

#: Endings of the names of files that are no JSON: exported ones, and the page.
FOREIGN = (".html", ".htm", ".csv", ".dot", ".graphml", ".mmd")

#: Half the time of gzip's own level, 6, for files that are 5 % larger.
_COMPRESSION = 4

#: Beginnings of the names of descriptors, which are written to and never replaced.
_DESCRIPTORS = ("/dev/std", "/dev/fd/", "/proc/self/fd/")


def write(path: Any, pieces: Iterable[str]) -> str:
    """Write text to a stream, or to a file that is replaced atomically; return its name.

    A pipe or a device, such as ``/dev/stdout``, is written to directly. What is written to a name
    that ends in ``.gz`` is compressed; equal texts give equal files.

    Raises
    ------
    OSError
        If it cannot be written. An existing file is then unchanged.
    """
    if hasattr(path, "write"):
        _write_pieces(path, pieces)
        return str(getattr(path, "name", ""))
    name = os.fsdecode(path)
    with _naming(name), ExitStack() as stack:
        file: Any
        if replaced(name) is None:
            file = stack.enter_context(open(name, "ab"))
        else:
            file = stack.enter_context(_replacing(name))
        if name.endswith(COMPRESSED):
            from gzip import GzipFile

            # Neither name nor time are in the header.
            file = stack.enter_context(GzipFile("", "wb", _COMPRESSION, file, mtime=0))
        _write_pieces(file, pieces)
    return name


def replaced(name: str) -> str | None:
    """Return the path of the file that :func:`write` replaces; None if it writes directly.

    Raises
    ------
    OSError
        If `name` is a directory, or not the name of a file.
    """
    if os.path.isdir(name):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if not os.path.basename(name):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    is_other = os.path.exists(name) and not os.path.isfile(name)
    return None if is_other or name.startswith(_DESCRIPTORS) else os.path.realpath(name)


@contextmanager
def _replacing(name: str) -> Iterator[IO[bytes]]:
    """Yield a new file that replaces the one of this name at the end, and keeps its mode.

    The target of a symbolic link is replaced, and the link stays.

    Raises
    ------
    OSError
        If the folder, or the existing file, is not writable for this process.
    """
    target = os.path.realpath(name)
    path = os.path.join(os.path.dirname(target), f".dagprofiler-{os.urandom(8).hex()}.tmp")
    if os.path.exists(target) and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
    try:
        with open(path, "xb") as file:
            if os.path.exists(target):
                os.chmod(path, stat.S_IMODE(os.stat(target).st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(path, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        raise


def check_writable(name: str) -> None:
    """Raise the OSError that :func:`write` would, as far as it can be known in advance."""
    target = replaced(name)
    needed = [name] if os.path.exists(name) else []
    needed += [os.path.dirname(target)] if target is not None else []
    for path in needed:
        # Raises FileNotFoundError for a folder that is missing.
        os.stat(path)
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)


def occupy_standard_streams() -> None:
    """Open the null device for standard streams that are closed.

    The next file or pipe would get their number, and what is written to the stream.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # noqa: FBT003


def second_place(save: Callable[[IO[bytes]], object]) -> str:
    """Write a result to a new file in the folder for temporary files; return its path.

    Parameters
    ----------
    save
        Writes the result to a stream.
    """
    from tempfile import mkstemp

    descriptor, path = mkstemp(prefix="dagprofiler-", suffix=".json")
    try:
        with open(descriptor, "wb") as file:
            save(file)
    except BaseException:
        os.unlink(path)
        raise
    return path


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Make errors name the user's file: not a temporary one, nor none where a device is full."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            error.filename = name
        raise


def _write_pieces(stream: IO[Any], pieces: Iterable[str]) -> None:
    try:
        stream.write("")
        binary = False
    except TypeError:
        binary = True
    for piece in pieces:
        stream.write(piece.encode("utf-8", "backslashreplace") if binary else piece)
