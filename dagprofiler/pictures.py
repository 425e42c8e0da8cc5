"""Drawing: a picture of a DAG, as notebooks show it and as it is saved."""

from __future__ import annotations

from functools import cached_property
from typing import IO, TYPE_CHECKING, Any

from dagprofiler.files import write
from dagprofiler.markup import Markup, Shown, paragraph, view

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection
    from typing import Union

    PathLike = Union[str, os.PathLike[str]]


class Drawing(Shown):
    """A picture of a DAG: notebooks show it, and it can be saved.

    Made by :meth:`DAG.draw <dagprofiler.DAG.draw>` and :meth:`Profile.draw
    <dagprofiler.Profile.draw>`. Edges lead from left to right.

    Attributes
    ----------
    svg
        The picture as SVG, on white.
    caption
        How many tasks and edges there are, and into how many groups they are folded.
    scene
        The boxes and lines that it consists of.

    Examples
    --------
    >>> from dagprofiler import DAG, task
    >>> @task(outputs=["x"])
    ... def source():
    ...     return {"x": 1}
    >>> DAG({"source": source}).draw()
    <Drawing: 1 task, 0 edges>
    """

    def __init__(self, scene: Any, svg_of: Callable[..., str]) -> None:
        self.scene = scene
        self.caption: str = scene.caption
        self._svg_of = svg_of

    @cached_property
    def svg(self) -> str:
        """Return the picture as SVG."""
        return self._svg_of(self.scene, opaque=True)

    def save(self, path: PathLike | IO[Any]) -> str:
        """Write the picture as SVG to a file, which is replaced as a whole, or an open stream.

        Returns
        -------
        str
            The path; of a stream its name, or an empty string.
        """
        return write(path, [self.svg])

    def __repr__(self) -> str:
        return f"<Drawing: {self.caption}>"

    def _repr_html_(self) -> str:
        return view(self.markup())

    def markup(self) -> Markup:
        """Return the picture and its caption, as they stand in a view of several parts."""
        picture = self._svg_of(self.scene, opaque=False)
        return Markup(f"{picture}{paragraph(self.caption, quiet=True)}")

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        """Return the picture also as an image, for notebooks that are shown without HTML."""
        return {**super()._repr_mimebundle_(include, exclude), "image/svg+xml": self.svg}
