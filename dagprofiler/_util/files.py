"""Writing files, which are replaced atomically."""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import IO, Any

from dagprofiler._util.interpreter import HOSTNAME

_PREFIX = ".dagprofiler-"

#: Ending of the names of files that are compressed.
COMPRESSED = ".gz"

#: Endings of the names of files that are no JSON: exported ones, and the page.
FOREIGN = (".html", ".htm", ".csv", ".dot", ".graphml", ".mmd")

#: Half the time of gzip's own level, 6, for files that are 5 % larger.
_COMPRESSION = 4

#: Folders of links to the descriptors of a process, and of its threads.
_DESCRIPTORS = re.compile(r"/proc/\d+(/task/\d+)?/fd|/dev/fd")

#: The attribute in which Linux keeps a file's access control list.
_ACCESS_LIST = "system.posix_acl_access"

#: Maximum number of links to follow, as in the operating system.
_LINKS = 40


def write(path: Any, pieces: Iterable[str]) -> str:
    """Write text to a stream, or to a file that is replaced atomically; return its name.

    A path that resolves to a regular file, or to no file, is replaced or created; a descriptor
    (``/dev/stdout``, ``/proc/self/fd/3``), a pipe, a device and the like is written to directly.
    What is written to a name that ends in ``.gz`` is compressed; equal texts give equal files.

    Raises
    ------
    OSError
        If it cannot be written. An existing file is then unchanged.
    """
    if hasattr(path, "write"):
        _write_pieces(path, pieces)
        return str(getattr(path, "name", ""))
    name = os.fsdecode(path)
    target = replaced(name)
    with _naming_full(name), ExitStack() as stack:
        file: Any = stack.enter_context(_written_on(name) if target is None else replacing(target))
        if name.endswith(COMPRESSED):
            from gzip import GzipFile

            # Neither name nor time are in the header.
            file = stack.enter_context(GzipFile("", "wb", _COMPRESSION, file, mtime=0))
        _write_pieces(file, pieces)
    return name


def replaced(name: str) -> str | None:
    """Return the path of the file that is replaced; None if `name` is written to directly.

    Raises
    ------
    OSError
        If `name` is not the name of a file, or cannot be resolved.
    """
    if os.path.basename(name) in ("", os.curdir, os.pardir):
        if os.path.isdir(name) or not name:
            code = errno.EISDIR if name else errno.ENOENT
            raise OSError(code, os.strerror(code), name)
        # It ends as the name of a folder does, and there is none.
        raise NotADirectoryError(errno.ENOTDIR, "Not the name of a file", name)
    try:
        is_file = stat.S_ISREG(os.stat(name).st_mode)
    except FileNotFoundError:
        is_file = True
    return os.path.realpath(name) if is_file and _descriptor_link(name) is None else None


def _descriptor_link(name: str) -> str | None:
    """Return the link to a descriptor that a path leads to; None if there is none.

    The target of that link may be the name of a file that has been removed.
    """
    for _ in range(_LINKS):
        folder, last = os.path.split(name)
        folder = os.path.realpath(folder)
        name = os.path.join(folder, last)
        if _DESCRIPTORS.fullmatch(folder):
            return name
        if not os.path.islink(name):
            break
        name = os.path.join(folder, os.readlink(name))
    return None


def _written_on(name: str) -> IO[bytes]:
    """Open a file that is written to directly."""
    folder, number = os.path.split(_descriptor_link(name) or "")
    own = folder == "/dev/fd" or folder.startswith(os.path.realpath("/proc/self") + os.sep)
    if own and number.isascii() and number.isdigit():
        # Opened by name, the file would have a position of its own, and later writes of the
        # program to the descriptor would overwrite it.
        return open(os.dup(int(number)), "wb")
    return open(name, "ab")


@contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """Yield a new file that replaces the one at `path` at the end.

    Until then only its owner can open it. It gets owner, group and mode of the old file as far
    as permitted, or those of the umask if there is none.

    Raises
    ------
    OSError
        If the existing file is not writable for this process, or not a regular file: a
        symbolic link would be replaced and not followed.
    """
    folder = os.path.dirname(path) or os.curdir
    old = _status(path)
    with ExitStack() as stack:
        with _naming(path):
            file = stack.enter_context(temporary(folder))
        yield file
        file.flush()
        if file.tell():
            os.fsync(file.fileno())
        with _naming(path):
            _resemble(file.fileno(), old, path)
            if os.name == "nt":
                # Windows cannot rename an open file.
                file.close()
            os.replace(file.name, path)


def check_writable(name: str) -> None:
    """Raise the OSError that :func:`write` would, as far as it can be known in advance."""
    target = replaced(name)
    if target is not None:
        _status(target)
        with _naming(target), temporary(os.path.dirname(target)):
            pass
    elif not os.access(name, os.W_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), name)


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


def second_place(save: Callable[[IO[bytes]], Any]) -> str:
    """Write a result to a new file that only its owner can open; return its path.

    Parameters
    ----------
    save
        Writes the result to a stream.

    Raises
    ------
    OSError
        If it can be written neither to the folder for temporary files, nor to memory, nor to
        the home folder.
    """
    from tempfile import mkstemp

    problems = []
    for folder in (None, "/dev/shm", os.path.expanduser("~")):  # noqa: S108  (mkstemp is safe)
        descriptor = None
        try:
            descriptor, path = mkstemp(".json", "dagprofiler-", folder)
            with open(descriptor, "wb") as file:
                save(file)
        except BaseException as error:
            if descriptor is not None:
                os.unlink(path)
            if not isinstance(error, OSError):
                raise
            problems.append(error)
        else:
            return path
    raise problems[0]


@contextmanager
def temporary(folder: str) -> Iterator[IO[bytes]]:
    """Yield a new file that only its owner can open; it is removed at the end.

    Such files of killed processes are removed first. A lock shows that the process of a file is
    alive, which needs ``flock`` in the file system; without it they are not removed.
    """
    _sweep(folder)
    with _new(folder, 0o600) as file:
        yield file


@contextmanager
def _new(folder: str, mode: int) -> Iterator[IO[bytes]]:
    file = _locked(folder, mode)
    try:
        yield file
    finally:
        with suppress(OSError):
            file.close()
        with suppress(OSError):
            os.unlink(file.name)


def _locked(folder: str, mode: int) -> IO[bytes]:
    """Create a file and lock it; repeat if another process removed it in between."""

    def opener(path: str, flags: int) -> int:
        return os.open(path, flags, mode)

    while True:
        path = os.path.join(folder, f"{_PREFIX}{os.urandom(8).hex()}{_ending()}")
        file = open(path, "x+b", opener=opener)  # noqa: SIM115  (the caller closes it)
        try:
            _lock(file.fileno())
            os.lstat(path)
        except (BlockingIOError, FileNotFoundError):
            file.close()
        except (ImportError, OSError):
            return file
        else:
            return file


def _lock(descriptor: int) -> None:
    """Lock a file while it is open here: unlike lockf, flock locks the file description."""
    from fcntl import LOCK_EX, LOCK_NB, flock

    flock(descriptor, LOCK_EX | LOCK_NB)


def _ending() -> str:
    """Return the suffix of the names of temporary files of this host.

    Locks of other hosts may be invisible here, in a shared folder.
    """
    from zlib import crc32

    return f".{crc32(HOSTNAME.encode('utf-8', 'surrogateescape')):08x}.tmp"


def _sweep(folder: str) -> None:
    """Remove temporary files that killed processes of this host and user left in a folder."""
    ending = _ending()
    with suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(_PREFIX) and name.endswith(ending):
                _remove_left(os.path.join(folder, name))


def _remove_left(path: str) -> None:
    with suppress(ImportError, OSError), open(path, "r+b", opener=open_untricked) as file:
        _lock(file.fileno())
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
            # If its process has just renamed it, unlink() fails: the name is gone.
            os.unlink(path)


def open_untricked(path: str, flags: int) -> int:
    """Open a file; never follow a link, nor wait for the other end of a pipe.

    A file that it creates has the mode that the umask leaves of 666.
    """
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_CLOEXEC", "O_NOINHERIT"):
        flags |= getattr(os, name, 0)
    return os.open(path, flags, 0o666)


def _status(path: str) -> os.stat_result | None:
    """Return the status of a regular file that this process may write; None if it is missing."""
    try:
        descriptor = open_untricked(path, os.O_WRONLY)
    except FileNotFoundError:
        return None
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise FileExistsError(errno.EEXIST, "Not a regular file", path)
    return status


def _resemble(descriptor: int, old: os.stat_result | None, path: str) -> None:
    """Give a new file owner, group, mode and access list of the old one, as far as permitted."""
    if not hasattr(os, "fchown"):
        return
    if old is None:
        # A probe shows the mode that the umask and the folder's rules give a new file.
        with _new(os.path.dirname(path) or os.curdir, 0o666) as probe:
            mode = stat.S_IMODE(os.fstat(probe.fileno()).st_mode)
    else:
        mode = stat.S_IMODE(old.st_mode)
        try:
            os.fchown(descriptor, -1, old.st_gid)
            _copy_list(descriptor, path)
        except OSError:
            # The group differs now, and gets no more than the rights of others.
            mode &= 0o707 | (mode & 0o007) << 3
        with suppress(OSError):
            os.fchown(descriptor, old.st_uid, -1)
    with suppress(OSError):
        os.fchmod(descriptor, mode)


def _copy_list(descriptor: int, path: str) -> None:
    """Give a new file the access control list of the old one, or none.

    In a file that has one, the mode's bits of the group are the most that the list grants.
    """
    if not hasattr(os, "getxattr"):
        return
    try:
        granted = os.getxattr(path, _ACCESS_LIST)
    except OSError:
        # The folder may have one for new files.
        with suppress(OSError):
            os.removexattr(descriptor, _ACCESS_LIST)
    else:
        os.setxattr(descriptor, _ACCESS_LIST, granted)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Make errors name the user's file, not a temporary one."""
    try:
        yield
    except OSError as error:
        raise type(error)(error.errno, error.strerror, path) from None


@contextmanager
def _naming_full(name: str) -> Iterator[None]:
    """Make an error in writing, such as that of a full device, name the file."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = name
        raise


def _write_pieces(stream: IO[Any], pieces: Iterable[str]) -> None:
    try:
        stream.write("")
        binary = False
    except TypeError:
        binary = True
    # A raw stream may write less than it is passed.
    put = partial(_put_all, stream) if isinstance(stream, io.RawIOBase) else stream.write
    for piece in pieces:
        put(piece.encode() if binary else piece)


def _put_all(stream: IO[Any], content: Any) -> None:
    left = memoryview(content)
    while left:
        written = stream.write(left)
        if written is None:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        left = left[written:]
