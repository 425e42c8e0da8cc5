"""Objects that do not want to be looked at."""


class ReprRaised(Exception):  # noqa: N818  (no error of anyone)
    """Must never come out of a message."""


class Raising:
    def __repr__(self):
        raise ReprRaised

    __str__ = __repr__


class NoClass:
    """Does not say what it is."""

    @property
    def __class__(self):
        raise RuntimeError("no class")


class Unnamed(type):
    """The class of a class that does not say its name."""

    @property
    def __name__(cls):
        raise ReprRaised
