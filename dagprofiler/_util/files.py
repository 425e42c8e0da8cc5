"""Files: the one place that writes them, replaced as a whole wherever they lie."""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


_PREFIX = ".dagprofiler-"

#: Folders of links to the descriptors of a process, and of its threads.
_DESCRIPTORS = re.compile(r"/proc/\d+(/task/\d+)?/fd|/dev/fd")

#: Where Linux keeps what a file grants beside its mode.
_ACCESS_LIST = "system.posix_acl_access"

#: How many links the system follows before it takes them for a circle.
_LINKS = 40


def write(path: Any, pieces: Iterable[str]) -> str:
    """Write text to a stream, or to a file that is replaced as a whole; return its name.

    What the path resolves to decides: a regular file is replaced, and one that is not there yet
    is made; a descriptor (``/dev/stdout``, ``/proc/self/fd/3``) and what is no regular file, as a
    pipe or a device, is written on.

    Raises
    ------
    OSError
        If it cannot be written. A file that was there is then as it was.
    """
    if hasattr(path, "write"):
        _write_pieces(path, pieces)
        return str(getattr(path, "name", ""))
    name = os.fsdecode(path)
    target = replaced(name)
    with _written_on(name) if target is None else replacing(target) as file:
        _write_pieces(file, pieces)
    return name


def replaced(name: str) -> str | None:
    """Return the path of the file that writing to `name` replaces; None if it is written on.

    Raises
    ------
    OSError
        If `name` is no file's name, or leads nowhere.
    """
    if os.path.basename(name) in ("", os.curdir, os.pardir):
        code = errno.EISDIR if name else errno.ENOENT
        raise OSError(code, os.strerror(code), name)
    try:
        is_file = stat.S_ISREG(os.stat(name).st_mode)
    except FileNotFoundError:
        is_file = True
    return os.path.realpath(name) if is_file and _descriptor_link(name) is None else None


def _descriptor_link(name: str) -> str | None:
    """Return the link to a descriptor that a path leads to; None if it leads to none.

    What that link says may be the name that a file had before it was removed.
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
    """Open what is written on and not replaced."""
    folder, number = os.path.split(_descriptor_link(name) or "")
    own = folder == "/dev/fd" or folder.startswith(os.path.realpath("/proc/self") + os.sep)
    if own and number.isascii() and number.isdigit():
        # Opened by its name, a file would be written from a place of its own, and what the
        # program writes to the descriptor afterwards would be written over it.
        return open(os.dup(int(number)), "wb")
    return open(name, "ab")


@contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """Yield a new file that takes the place of the one at `path` when all is written.

    Until then only its owner can open it. It gets owner, group and mode of the old file, as far
    as this process may give them, or what the umask says if there is none.

    Raises
    ------
    OSError
        If there is a file that this process could not open for writing, or what is no regular
        file, as a symbolic link: it would be replaced and not followed.
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
                # There a file that is open gets no other name.
                file.close()
            os.replace(file.name, path)


def check_writable(name: str) -> None:
    """Raise the OSError that :func:`write` would, as far as it shows before there is content."""
    target = replaced(name)
    if target is not None:
        _status(target)
        with _naming(target), temporary(os.path.dirname(target)):
            pass
    elif not os.access(name, os.W_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), name)


def second_place(save: Callable[[IO[bytes]], Any]) -> str:
    """Have a result written to a new file that only its owner can open; return its path.

    Parameters
    ----------
    save
        Writes the result to a stream.

    Raises
    ------
    OSError
        If there is room for it neither in the folder for temporary files nor in memory nor at
        home.
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

    What killed processes left of such files is removed first. Each is locked as long as its maker
    lives, which needs a system and a file system with ``flock``; elsewhere they stay.
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
    """Make a file and lock it; one that was swept in between is made anew."""

    def opener(path: str, flags: int) -> int:
        return os.open(path, flags, mode)

    while True:
        path = os.path.join(folder, f"{_PREFIX}{os.urandom(8).hex()}{_ending()}")
        file = open(path, "x+b", opener=opener)  # noqa: SIM115  (whoever calls closes it)
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
    """Lock a file as long as it is open here: unlike those of lockf, such a lock is the file's."""
    from fcntl import LOCK_EX, LOCK_NB, flock

    flock(descriptor, LOCK_EX | LOCK_NB)


def _ending() -> str:
    """Return how the names of temporary files end that processes of this host make.

    Locks of other hosts may not be seen here, though the folder is.
    """
    from zlib import crc32

    host = os.uname().nodename if hasattr(os, "uname") else ""
    return f".{crc32(host.encode('utf-8', 'surrogateescape')):08x}.tmp"


def _sweep(folder: str) -> None:
    """Remove what processes of this host and user left in a folder when they were killed."""
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
            # If its maker has just given it its name, there is none of this one.
            os.unlink(path)


def open_untricked(path: str, flags: int) -> int:
    """Open a file; never follow a link, nor wait for the other end of a pipe."""
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_CLOEXEC", "O_NOINHERIT"):
        flags |= getattr(os, name, 0)
    return os.open(path, flags)


def _status(path: str) -> os.stat_result | None:
    """Return the status of a regular file that this process may write; None if there is none."""
    try:
        descriptor = open_untricked(path, os.O_WRONLY)
    except FileNotFoundError:
        return None
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise FileExistsError(errno.EEXIST, "Is no regular file", path)
    return status


def _resemble(descriptor: int, old: os.stat_result | None, path: str) -> None:
    """Give a new file what the old one at `path` grants to whom, as far as it can be given."""
    if not hasattr(os, "fchown"):
        return
    if old is None:
        # What the umask and the folder's own rules make of a file is seen by making one.
        with _new(os.path.dirname(path) or os.curdir, 0o666) as probe:
            mode = stat.S_IMODE(os.fstat(probe.fileno()).st_mode)
    else:
        mode = stat.S_IMODE(old.st_mode)
        try:
            os.fchown(descriptor, -1, old.st_gid)
            _copy_list(descriptor, path)
        except OSError:
            # The bits are for another group now, which may do no more than everybody may.
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
    """Let errors name the file that the user knows, not a temporary one."""
    try:
        yield
    except OSError as error:
        raise type(error)(error.errno, error.strerror, path) from None


def _write_pieces(stream: IO[Any], pieces: Iterable[str]) -> None:
    try:
        stream.write("")
        binary = False
    except TypeError:
        binary = True
    # Alone a raw stream may write less than it is given.
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
