"""The files of a journal: RecordFile of its records, OutputStore of the outputs of tasks.

A record is a line: a checksum of it and all records before it, and JSON, which begins with the
record's number. The first record is the header, which says what identifies a run.

Each worker appends outputs to a segment, a file of its own, so that no worker waits for another.
It returns the place of each output with its measurements.
"""

from __future__ import annotations

import json
import os
import re
import stat
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from io import BufferedReader, FileIO
from itertools import count
from threading import Lock
from typing import IO, Any, NamedTuple
from zlib import crc32

from dagprofiler._util.interpreter import HOSTNAME
from dagprofiler.config import same_value
from dagprofiler.errors import JournalError, describe, listed, short_repr
from dagprofiler.graph.wiring import Wiring
from dagprofiler.measure.kernel import Holder
from dagprofiler.measure.pipeline import Contract
from dagprofiler.serializers import FrameList
from dagprofiler.task import Task

#: The length of a file is part of what it syncs.
_sync = getattr(os, "fdatasync", os.fsync)


class OutputStore(NamedTuple):
    """The place where outputs are stored; sent to workers, which :meth:`open` it.

    Attributes
    ----------
    directory
        An absolute path.
    key
        Identifies this journal: the directory holds an empty file of that name.
    trust
        Whether other users may own the directory and its files, and write to them.
    """

    directory: str
    key: str
    trust: bool = False

    @property
    def token(self) -> str:
        """The path of the file that identifies the journal."""
        return os.path.join(self.directory, f"{self.key}.key")

    def create(self) -> None:
        """Create the directory, and the empty file that identifies the journal.

        Raises
        ------
        JournalError
            If other users can write to the directory, and `trust` is False.
        """
        os.makedirs(os.path.dirname(self.directory), exist_ok=True)
        with suppress(FileExistsError):
            os.mkdir(self.directory, 0o777 if self.trust else 0o700)
        self.check()
        with self.new_file(self.token) as file:
            os.fsync(file.fileno())

    def check(self, name: str = "") -> None:
        """Raise a JournalError if `trust` is False and others can write to the path.

        The path is the directory, or the file `name` in it.
        """
        path = os.path.join(self.directory, name) if name else self.directory
        if not self.trust:
            check_owner(path, os.stat(path))

    def new_file(self, path: str) -> IO[bytes]:
        """Create and open a file, which other users cannot read unless `trust` is True."""
        mode = 0o666 if self.trust else 0o600
        return open(path, "xb", opener=lambda path, flags: os.open(path, flags, mode))

    def open(self) -> OpenStore:
        """Return the store for the calling thread."""
        return OpenStore(self)

    def frames(self, stored: Mapping[str, Any], field: str) -> Any:
        """Return the serialized value of an output.

        Raises
        ------
        JournalError
            If it is missing or damaged, or other users may have written it.
        """
        path = self._segment(stored)
        offset, checksum, whole, lengths = stored["fields"][field]
        nbytes, data = sum(map(abs, lengths)), b""
        try:
            with open(path, "rb") as file:
                status = os.fstat(file.fileno())
                if offset + nbytes <= status.st_size:
                    file.seek(offset)
                    data = file.read(nbytes)
        except (OSError, ValueError) as error:
            raise JournalError(path, [f"cannot be read: {describe(error)}"]) from error
        if not self.trust:
            check_owner(path, status)
        if len(data) < nbytes or _with_form(crc32(data), field, whole, lengths) != checksum:
            raise JournalError(
                path, [f"output {field!r} is damaged: its checksum is wrong"], offset
            )
        if whole:
            return data
        frames, start, view = FrameList(), 0, memoryview(data)
        for length in lengths:
            frame = view[start : start + abs(length)]
            start += abs(length)
            frames.append(bytes(frame) if length >= 0 else frame)
        return frames

    def is_torn(self, stored: Mapping[str, Any], ends: dict[str, int]) -> bool:
        """Tell whether a segment is shorter than the outputs that were written to it.

        Parameters
        ----------
        ends
            Length of each segment that was looked up, in bytes; a cache.
        """
        segment = stored["segment"]
        if segment not in ends:
            path = self._segment(stored)
            try:
                ends[segment] = os.path.getsize(path)
            except (OSError, ValueError) as error:
                raise JournalError(path, [f"cannot be read: {describe(error)}"]) from error
        return any(
            offset + sum(map(abs, lengths)) > ends[segment]
            for offset, _, _, lengths in stored["fields"].values()
        )

    def _segment(self, stored: Mapping[str, Any]) -> str:
        """Return the path of the segment that outputs are in."""
        name = stored["segment"]
        if os.path.basename(name) != name:
            raise JournalError(
                self.directory, [f"segment {name!r} is not a file in this directory"]
            )
        return os.path.join(self.directory, name)


class OpenStore(Holder):
    """Writes the outputs of the tasks of one worker to a segment."""

    def __init__(self, store: OutputStore) -> None:
        # At most one segment is open; the thread of a worker ends without notice.
        super().__init__(_close)
        self._store = store
        self._segment = ""

    def begin(self) -> None:
        """Open a segment, unless one is open.

        Raises
        ------
        JournalError
            If this worker cannot reach the directory.
        """
        if self._held:
            return
        try:
            os.stat(self._store.directory)
            if not os.path.exists(self._store.token):
                raise self._unreachable(
                    "on this worker it is another directory, or holds another journal"
                )
            self._held.append(self._new_segment())
        except OSError as error:
            raise self._unreachable(describe(error)) from error

    def _unreachable(self, why: str) -> JournalError:
        worker = f"worker {HOSTNAME} (process {os.getpid()})"
        return JournalError(self._store.directory, [f"{worker} cannot write there: {why}"])

    def _new_segment(self) -> IO[bytes]:
        worker = f"{HOSTNAME}-{os.getpid()}-{threading.get_ident()}".replace(os.sep, "_")
        for number in count():
            # Other hosts and containers may have the same names and numbers.
            with suppress(FileExistsError):
                self._segment = f"{worker}-{number}.segment"
                file = self._store.new_file(os.path.join(self._store.directory, self._segment))
                sync_directory(self._store.directory)
                return file
        raise AssertionError  # pragma: no cover  (count() has no end)

    def put(self, encoded: Mapping[str, Any]) -> dict[str, Any]:
        """Write outputs and sync them, so that they survive a power failure.

        Returns
        -------
        dict
            The ``segment``, and for each of its ``fields`` its offset, a checksum
            of its content, name and form, whether it is one bytes object, and the
            lengths of its frames, negative for those that are not bytes objects.
        """
        (file,) = self._held
        fields: dict[str, list[Any]] = {}
        try:
            start = file.tell()
            for field, data in encoded.items():
                offset, checksum, lengths = start, 0, []
                for part in data if isinstance(data, list) else [data]:
                    view = memoryview(part)
                    buffer = view if view.c_contiguous else view.tobytes()
                    checksum = crc32(buffer, checksum)
                    file.write(buffer)
                    lengths.append(view.nbytes if isinstance(part, bytes) else -view.nbytes)
                    start += view.nbytes
                whole = not isinstance(data, list)
                checksum = _with_form(checksum, field, whole, lengths)
                fields[field] = [offset, checksum, whole, lengths]
            file.flush()
            _sync(file.fileno())
        except BaseException as error:
            # The content of the segment is unknown now; the next outputs go to another one.
            self.close()
            if not isinstance(error, OSError):
                raise
            path = os.path.join(self._store.directory, self._segment)
            raise JournalError(path, [f"outputs cannot be written: {describe(error)}"]) from error
        return {"segment": self._segment, "fields": fields}


def _close(segment: IO[bytes]) -> None:
    # Closing flushes only after a failed write, which may fail again.
    with suppress(OSError):
        segment.close()


def sync_directory(path: str) -> None:
    """Sync the names in a directory, so that they survive a power failure."""
    # Windows cannot open directories, and syncs names by itself.
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _with_form(checksum: int, field: str, whole: bool, lengths: list[int]) -> int:  # noqa: FBT001
    """Return the checksum of an output's content, extended by its name and frames."""
    return crc32(repr((field, whole, lengths)).encode("utf-8", "surrogatepass"), checksum)


def check_owner(path: str, status: os.stat_result) -> None:
    """Raise a JournalError if another user may have written the file at a path.

    Parameters
    ----------
    status
        The result of :func:`os.stat` for it.
    """
    if not hasattr(os, "geteuid"):
        # The mode does not show the permissions that Windows has.
        return
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid != os.geteuid():
        why = f"it belongs to another user (number {status.st_uid})"
    elif mode & 0o022:
        why = f"other users can write to it (its mode is {mode:04o})"
    else:
        return
    hint = "if you trust them, pass trust=True (--trust-journal)"
    raise JournalError(path, [f"{why}, and resuming a journal executes code in it; {hint}"])


_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no number of JSON")


_decode = json.JSONDecoder(parse_constant=_refuse).decode

#: Version of the file format.
FORMAT = 2

#: The most differences that a message lists.
_MOST = 10

#: Length of the longest bound value, pickled, that is recorded whole; of others a hash is.
_LONGEST = 20_000

#: The beginning of a record, with its number. It cannot occur inside a record.
_BEGINNING = re.compile(rb'[0-9a-f]{8} \{"record":(\d{1,15}),')

#: Files that this process writes to: its own lock does not exclude it.
_written: set[tuple[int, int]] = set()
_guard = Lock()


class RecordFile:
    """The records of one run, in a file that only this process appends to.

    Parameters
    ----------
    path
        The file, which exists.

    Attributes
    ----------
    records
        The records that the file held, without the header.
    header
        The first record.
    torn_bytes
        Length of the incomplete last record, which :meth:`cut` drops; 0 if there is none.

    Raises
    ------
    JournalError
        If the file cannot be read, or is damaged before its end.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._identity: tuple[int, int] | None = None
        try:
            # Not after it is open: to close it again would give up the lock of who has it here.
            self._claim(os.stat(path))
            self._file = FileIO(path, "r+")
        except BaseException as error:
            self._give_up()
            if not isinstance(error, OSError):
                raise
            raise JournalError(path, [f"cannot be opened: {describe(error)}"]) from error
        try:
            self._lock()
            # Not by opening the file again: closing that would release the lock.
            lines = BufferedReader(self._file)
            self.records, self._checksum, self._size, size = _read(path, lines)
            lines.detach()
        except BaseException:
            self.close()
            raise
        self._number = len(self.records)
        self.torn_bytes = size - self._size
        self.header = self.records.pop(0)

    @classmethod
    def create(
        cls, path: str, header: Mapping[str, Any], new_file: Callable[[str], IO[bytes]]
    ) -> RecordFile:
        """Create the file with its header, atomically.

        Parameters
        ----------
        new_file
            Creates and opens a file.

        Raises
        ------
        FileExistsError
            If the file exists, even if another process has just created it.
        """
        temporary = f"{path}.{os.urandom(8).hex()}"
        try:
            with new_file(temporary) as file:
                file.write(_line(0, {"format": FORMAT, **header}, 0)[0])
                file.flush()
                os.fsync(file.fileno())
            _give_name(temporary, path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
        sync_directory(os.path.dirname(path))
        return cls(path)

    def _claim(self, status: os.stat_result) -> None:
        """Keep other threads out, until it is closed."""
        identity = status.st_dev, status.st_ino
        with _guard:
            if identity in _written:
                raise JournalError(self.path, ["another run in this process is writing to it"])
            _written.add(identity)
        self._identity = identity

    def _give_up(self) -> None:
        identity, self._identity = self._identity, None
        if identity is not None:
            _written.discard(identity)

    def _lock(self) -> None:
        """Keep other processes out as long as it is open."""
        try:
            # Unlike with flock(), forked processes do not keep the lock.
            from fcntl import LOCK_EX, LOCK_NB, lockf
        except ImportError:
            return
        try:
            lockf(self._file, LOCK_EX | LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            raise JournalError(self.path, ["another process is writing to it"]) from error
        except OSError:
            # A file system without locks.
            return

    def cut(self) -> None:
        """Drop an incomplete last record."""
        self._file.truncate(self._size)
        self._file.seek(self._size)

    def append(self, record: Mapping[str, Any]) -> None:
        """Write a record; it survives a kill of this process.

        Raises
        ------
        JournalError
            If it cannot be written; the file stays readable.
        """
        line, checksum = _line(self._number, record, self._checksum)
        try:
            written = self._file.write(line)
            if written < len(line):
                # Writing the rest raises the reason.
                self._file.write(line[written:])
        except BaseException as error:
            with suppress(OSError):
                self.cut()
            if not isinstance(error, OSError):
                raise
            raise JournalError(self.path, [f"cannot be written: {describe(error)}"]) from error
        self._number += 1
        self._checksum = checksum
        self._size += len(line)

    def sync(self) -> None:
        """Sync the records, so that they survive a power failure."""
        os.fsync(self._file.fileno())

    def is_there(self) -> bool:
        """Tell whether the path still leads to this file."""
        try:
            status = os.stat(self.path)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._identity

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._give_up()


def _give_name(temporary: str, path: str) -> None:
    try:
        # Unlike a rename, a link never replaces an existing file.
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        # A file system without hard links.
        os.rename(temporary, path)


def _line(number: int, record: Mapping[str, Any], before: int) -> tuple[bytes, int]:
    """Return a record as the line `number`, and its checksum, chained to the one before."""
    text = b'{"record":%d,%b' % (number, _encode(record)[1:].encode("ascii"))
    checksum = crc32(text, before)
    return b"%08x %b\n" % (checksum, text), checksum


def _read(path: str, lines: Iterable[bytes]) -> tuple[list[dict[str, Any]], int, int, int]:
    """Return the complete records, the last one's checksum and end, and the file's length.

    Only the last record may be incomplete: the process ended while writing it.
    """
    records: list[dict[str, Any]] = []
    checksum = end = size = 0
    for line in lines:
        number, begin, size = len(records), size, size + len(line)
        chained = crc32(line[9:-1], checksum)
        if end < begin:
            raise _damaged(path, number, "its checksum is wrong", end)
        if line.endswith(b"\n") and line[:9] == b"%08x " % chained:
            records.append(_record(path, number, line[9:], begin))
            checksum, end = chained, size
            continue
        numbers = [int(digits) for digits in _BEGINNING.findall(line)]
        if number and numbers not in ([], [number]):
            # Records before it are missing.
            raise _damaged(
                path, number, f"number {number} is expected here, not {numbers[-1]}", begin
            )
    if not records:
        raise JournalError(path, ["it has no header, or a damaged one"], 0)
    return records, checksum, end, size


def _damaged(path: str, number: int, why: str, begin: int) -> JournalError:
    return JournalError(path, [f"line {number + 1}: a record is damaged or missing: {why}"], begin)


def _record(path: str, number: int, text: bytes, begin: int) -> dict[str, Any]:
    """Return the record that a line holds."""
    try:
        record: dict[str, Any] = _decode(text.decode())
        version, recorded = record.get("format"), record.get("record")
    except (AttributeError, ValueError, RecursionError) as error:
        raise _damaged(path, number, describe(error), begin) from error
    if not number and version != FORMAT:
        problem = f"its format is {version!r}, this version reads {FORMAT}"
        raise JournalError(path, [f"another version of dagprofiler has written it: {problem}"])
    if recorded != number:
        raise _damaged(path, number, f"number {number} is expected here, not {recorded!r}", begin)
    return record


def packed(value: Any) -> str:
    """Return a value, pickled, as text; raise what pickle raises."""
    import pickle

    return b64encode(pickle.dumps(value, protocol=4)).decode("ascii")


def unpacked(text: str) -> Any:
    """Return the value whose text :func:`packed` returned."""
    import pickle

    return pickle.loads(b64decode(text))


def graph_of(contracts: Sequence[Contract], wiring: Wiring) -> dict[str, Any]:
    """Return the declarations and the incoming edges of each task, as JSON."""
    graph: dict[str, Any] = {}
    names, first_slot = wiring.names, wiring.first_slot
    for i, name in enumerate(names):
        contract, feeds = contracts[i], []
        for field, slot in wiring.feeds(i):
            source = wiring.owner[slot]
            feeds.append([field, names[source], wiring.outputs[source][slot - first_slot[source]]])
        graph[name] = {
            "inputs": contract.inputs,
            "outputs": contract.outputs,
            "gathers": contract.gathers,
            "serializer": str(contract.serializer),
            # The order matters to a task that gathers.
            "fed with": feeds if contract.gathers else sorted(feeds),
            "after": sorted(names[source] for source in wiring.predecessors(i)),
        }
    return graph


def packed_bound(bound: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the bound values of a task as text: a hash of a long one, None if none is possible."""
    return {
        key: text if text is None or len(text) <= _LONGEST else _hash_of(text)
        for key, text in packed_config(bound).items()
    }


def _hash_of(text: str) -> str:
    from hashlib import blake2b

    # No text that packed() returns has a colon.
    return f"blake2b:{blake2b(text.encode(), digest_size=16).hexdigest()}"


def graph_differences(now: Mapping[str, Any], then: Mapping[str, Any]) -> Iterator[str]:
    """Yield the differences between a graph and the one in the journal."""
    yield from _listed("the DAG lacks", [name for name in then if name not in now])
    yield from _listed("the journal lacks", [name for name in now if name not in then])
    differing = [name for name in now if name in then and now[name] != then[name]]
    for name in differing[:_MOST]:
        for part in {**now[name], **then[name]}:
            new, old = now[name].get(part), then[name].get(part)
            if new != old:
                new, old = short_repr(new), short_repr(old)
                yield f"task {name!r}: {part}: {new}, in the journal {old}"
    yield from _listed("more that differ:", differing[_MOST:])


def _listed(what: str, names: list[str]) -> Iterator[str]:
    if names:
        yield f"{what} task{'s' * (len(names) > 1)} {listed(names, _MOST)}"


def packed_config(config: Mapping[str, Any]) -> dict[str, str | None]:
    """Return each parameter as text; None if it cannot be pickled."""
    parameters: dict[str, str | None] = {}
    for name, value in config.items():
        try:
            parameters[name] = packed(value)
        except Exception:  # noqa: BLE001  (a value's own __reduce__ may raise anything)
            parameters[name] = None
    return parameters


def differences(
    now: Mapping[str, Any], then: Mapping[str, str | None], kind: str, where: str
) -> tuple[list[str], dict[str, str]]:
    """Return what differs from values in the journal, and why others cannot be compared.

    Parameters
    ----------
    now, then
        The values, and their texts in the journal.
    kind, where
        What they are, in the keys of what cannot be compared and in messages.
    """
    problems, unknown = [], {}
    for name in {**now, **then}:
        which = f"{where} {name!r}"
        if name not in then:
            problems.append(f"{which} is not in the journal")
        elif name not in now:
            problems.append(f"{which} is in the journal only")
        else:
            text = then[name]
            try:
                if text is None:
                    raise TypeError("it could not be pickled")
                known = not text.startswith("blake2b:")
                stored = unpacked(text) if known else None
                same = known and same_value(stored, now[name])
                same = same or text in (again := packed(now[name]), _hash_of(again))
            except Exception as error:  # noqa: BLE001  (code of users)
                unknown[f"{kind}.{name}"] = describe(error)
                continue
            if not same:
                old = short_repr(stored) if known else "another one"
                problems.append(f"{which}: {short_repr(now[name])}, in the journal {old}")
    return problems, unknown


def sources_of(tasks: Mapping[str, Task]) -> dict[str, str | None]:
    """Return a hash of the source of each task: of its function, or its classes; None if unknown.

    The source of functions that they call is not included.
    """
    known: dict[int, str | None] = {}
    sources = {}
    for name, task in tasks.items():
        written = vars(task).get("__wrapped__") or vars(type(task)).get("__wrapped__") or type(task)
        if id(written) not in known:
            known[id(written)] = _source_of(written)
        sources[name] = known[id(written)]
    return sources


def _source_of(written: Any) -> str | None:
    import inspect
    from hashlib import blake2b

    parts = _own_classes(written) if isinstance(written, type) else [written]
    try:
        text = "\n".join(map(inspect.getsource, parts))
    except Exception:  # noqa: BLE001  (inspect reads a file that may have changed)
        return None
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _own_classes(kind: type[Task]) -> list[type]:
    """Return a task's class and its bases that are not part of this library or of Python."""
    return [
        base
        for base in kind.__mro__
        if base.__module__.partition(".")[0] not in ("dagprofiler", "builtins", "abc")
    ]


def same_inputs(
    now: Mapping[str, Mapping[str, Any]],
    then: Mapping[str, Mapping[str, Any]],
    contracts: Mapping[str, Contract],
) -> Iterator[str]:
    """Yield the inputs from outside the graph that differ from the serialized ones `then`."""
    for name in {**now, **then}:
        new, old = now.get(name, {}), then.get(name, {})
        for field in {**new, **old}:
            where = f"inputs: {field!r} of task {name!r}"
            if field not in old:
                yield f"{where} is not in the journal"
            elif field not in new:
                yield f"{where} is in the journal only"
            elif name in contracts and not _same_input(new[field], old[field], contracts[name]):
                yield f"{where} differs from the one in the journal"


def _same_input(value: Any, frames: Any, contract: Contract) -> bool:
    # Equal values may have different bytes, and values with the same bytes may not compare equal.
    return contract.encode(value) == frames or same_value(contract.decode(frames), value)
