"""Config: the parameters of a DAG, an immutable mapping."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dagprofiler._util import Values
from dagprofiler._util.interpreter import imported
from dagprofiler.errors import DeclarationError, did_you_mean, short_repr


class Config(Mapping[str, Any]):
    """Parameters that tasks compute with and that cost models scale by.

    Parameters
    ----------
    **parameters
        Any names and values. Values are returned as they are, not copied.

    Notes
    -----
    A Config never changes: no parameter can be set or deleted, and
    :meth:`copy` makes a new one. A parameter named like a method (``get``,
    ``copy``, ...) is accessible as an item only. Two configs are equal when they
    hold equal values under the same names, arrays included; a Config is
    hashable when all its values are.

    Examples
    --------
    >>> cfg = Config(N_UE=10000, N_CELL=7)
    >>> cfg.N_UE, cfg["N_CELL"], cfg.get("N_SLICE", 5)
    (10000, 7, 5)
    >>> cfg.copy(N_UE=20000)
    Config(N_UE=20000, N_CELL=7)
    """

    __slots__ = ("_params",)

    _params: Values

    def __init__(self, /, *positional: Any, **parameters: Any) -> None:
        if positional:
            raise DeclarationError(
                f"Config takes parameters by name, got {short_repr(positional[0])}; "
                "write Config(N=3), or Config(**mapping)"
            )
        object.__setattr__(self, "_params", parameters)

    def __getattr__(self, name: str) -> Any:
        # Reached only when no method or slot has this name. `_params` itself
        # gets here while an unpickled object is still empty.
        if name != "_params" and name in self._params:
            return self._params[name]
        if name.startswith("__") or name == "_params":
            raise AttributeError(name)
        raise AttributeError(f"Config has {no_parameter(name, self._params)}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"cannot set {name!r}: a Config never changes; use config.copy({name}=...)"
        )

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"cannot delete {name!r}: a Config never changes")

    def __getitem__(self, name: str) -> Any:
        return self._params[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return same_value(self._params, dict(other))

    def __hash__(self) -> int:
        return hash(frozenset(self._params.items()))

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{name}={value!r}' for name, value in self.items())})"

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(n for n in self._params if n.isidentifier())]

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), dict(self._params))

    def get(self, name: str, default: Any = None) -> Any:
        """Return the parameter `name`, or `default` if it does not exist."""
        return self._params.get(name, default)

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters as a new dict."""
        return dict(self._params)

    def copy(self, /, **overrides: Any) -> Config:
        """Return a new Config with `overrides` applied; this one does not change."""
        return _rebuild(type(self), {**self._params, **overrides})


def _rebuild(kind: type[Config], parameters: Values) -> Config:
    config = kind.__new__(kind)
    object.__setattr__(config, "_params", parameters)
    return config


def no_parameter(name: object, names: Iterable[str]) -> str:
    """Return the words of errors for a name that is none of the parameters."""
    known = [*names]
    return (
        f"no parameter {short_repr(name)} "
        f"(parameters: {', '.join(map(repr, known)) or 'none'}){did_you_mean(name, known)}"
    )


def same_value(left: Any, right: Any) -> bool:
    """Tell whether two parameter values are equal, including arrays inside them.

    Arrays are equal when their shapes and elements are. Objects whose
    ``==`` has no truth value (data frames) are compared by ``equals()``.

    Examples
    --------
    >>> same_value({"a": [1, 2]}, {"a": [1, 2]}), same_value([1], (1,))
    (True, False)
    """
    if left is right:
        return True
    numpy = imported("numpy")
    if numpy is not None and (isinstance(left, numpy.ndarray) or isinstance(right, numpy.ndarray)):
        try:
            return type(left) is type(right) and bool(numpy.array_equal(left, right))
        except (TypeError, ValueError):
            # Their types of elements cannot be compared, or elements are arrays.
            return False
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same_value(left[k], right[k]) for k in left)
    if isinstance(left, (list, tuple)) and type(left) is type(right):
        return len(left) == len(right) and all(map(same_value, left, right))
    equals = getattr(left, "equals", None)
    if callable(equals) and type(left) is type(right):
        return bool(equals(right))
    try:
        return bool(left == right)
    except ValueError:
        # An elementwise comparison has no truth value: the types differ.
        return False
