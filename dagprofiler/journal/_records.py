"""RecordFile: the file of a journal that holds its records, and what identifies a run.

A record is a line: a checksum of it and all records before it, and JSON, which begins with the
record's number. The first record is the header.
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64decode, b64encode
from contextlib import suppress
from io import BufferedReader, FileIO
from threading import Lock
from typing import IO, TYPE_CHECKING, Any
from zlib import crc32

from dagprofiler.config import same_value
from dagprofiler.errors import JournalError, describe, short_repr
from dagprofiler.journal._store import sync_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from dagprofiler.graph.wiring import Wiring
    from dagprofiler.measure.pipeline import Contract
    from dagprofiler.task import Task


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
        more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
        yield f"{what} task{'s' * (len(names) > 1)} {', '.join(map(repr, names[:_MOST]))}{more}"


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
    for name in [*now, *(name for name in then if name not in now)]:
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
    for name in [*now, *(name for name in then if name not in now)]:
        new, old = now.get(name, {}), then.get(name, {})
        for field in [*new, *(field for field in old if field not in new)]:
            where = f"inputs: {field!r} of task {name!r}"
            if field not in old:
                yield f"{where} is not in the journal"
            elif field not in new:
                yield f"{where} is in the journal only"
            elif name in contracts and not _same_input(new[field], old[field], contracts[name]):
                yield f"{where} differs from the one in the journal"


def _same_input(value: Any, frames: Any, contract: Contract) -> bool:
    # Equal values may have different bytes, and values with the same bytes may not compare equal.
    encoded = contract.encode(value)
    if encoded == frames:
        return True
    return same_value(contract.decode(frames), value)
