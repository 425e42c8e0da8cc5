"""Packing: what goes to a worker in another process, and which part of it cannot."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from dagprofiler.errors import SerializationError, describe, short_repr
from dagprofiler.executors.jobs import PackedJob
from dagprofiler.serializers import PickleSerializer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dagprofiler.executors.jobs import Session
    from dagprofiler.pipeline import Contract

__all__ = ["Packer"]


class Packer:
    """Packs the sessions and the tasks of a run.

    Parameters
    ----------
    by_value
        Whether to take along what is defined in the main program, which pickle
        only names.

    Notes
    -----
    cloudpickle, where it is installed, packs what pickle cannot.
    """

    def __init__(self, *, by_value: bool) -> None:
        self._by_value = by_value
        #: What contracts are packed as, by their ids; with them, so that the ids hold.
        self._contracts: dict[int, tuple[Contract, bytes]] = {}

    def session(self, session: Session) -> bytes:
        """Return a session in bytes.

        Raises
        ------
        SerializationError
            If it cannot travel; it names the parameter, or else the meters.
        """
        try:
            return self._pack(tuple(session))
        except Exception as error:
            culprit = self._culprit(dict(session.config))
            which = "the meters" if culprit is None else f"config: parameter {short_repr(culprit)}"
            raise _refused(which, error) from error

    def job(self, key: str, work: tuple[Any, ...], outputs: list[str]) -> PackedJob:
        """Return a task as a job for another process.

        Parameters
        ----------
        key
            Key of its session.
        work
            The fields of a :class:`~dagprofiler.pipeline.Work`.
        outputs
            Names of those that other tasks need.

        Raises
        ------
        SerializationError
            If the task cannot travel; it names the task, and its attribute.
        """
        name, task, contract, inputs, decoders, keep = work
        config = task.config
        try:
            # Its worker has that from the session.
            task.config = None
            data = self._pack((task, self._contract(contract), inputs, decoders))
        except Exception as error:
            culprit = self._culprit(vars(task))
            attribute = "" if culprit is None else f": its attribute {short_repr(culprit)}"
            raise _refused(f"task {name!r}{attribute}", error) from error
        finally:
            task.config = config
        return PackedJob(key, name, keep, outputs, data)

    def _contract(self, contract: Contract) -> Contract | bytes:
        """Return a contract as bytes; as it is if it may hold on to its task."""
        if contract.encode is not PickleSerializer.dumps:
            return contract
        known = self._contracts.get(id(contract))
        if known is None:
            known = self._contracts[id(contract)] = contract, self._pack(contract)
        return known[1]

    def _pack(self, value: Any) -> bytes:
        try:
            data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        except Exception:
            dumps = _cloudpickle()
            if dumps is None:
                raise
            return dumps(value)
        if self._by_value and b"__main__" in data:
            dumps = _cloudpickle()
            return data if dumps is None else dumps(value)
        return data

    def _culprit(self, parts: Mapping[str, Any]) -> str | None:
        """Return the first of several named values that cannot be packed; None if all can."""
        for name, value in parts.items():
            try:
                self._pack(value)
            except Exception:  # noqa: BLE001  (what a value's own __reduce__ raises)
                return name
        return None


def _cloudpickle() -> Callable[[Any], bytes] | None:
    try:
        import cloudpickle
    except ImportError:
        return None
    dumps: Callable[[Any], bytes] = cloudpickle.dumps
    return dumps


def _refused(which: str, error: Exception) -> SerializationError:
    hint = ""
    if isinstance(error, (pickle.PicklingError, AttributeError)) and _cloudpickle() is None:
        # What pickle says where it cannot find a function or a class by its name.
        hint = '; define it at the top of a module, or pip install "dagprofiler[cloudpickle]"'
    return SerializationError(f"{which} cannot travel to a worker: {describe(error)}{hint}")
