"""Profile: everything that one run measured, and its JSON document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any
from warnings import warn

from dagprofiler._document import ProfileData
from dagprofiler._util import JsonObject, PathLike, plugins
from dagprofiler._util.checks import instance
from dagprofiler._util.files import FOREIGN, write
from dagprofiler._util.html import Drawing, Shown
from dagprofiler._util.interpreter import HOSTNAME
from dagprofiler._util.json import (
    MAX_UNPACKED_BYTES,
    check_plain,
    collector_paused,
    file_name,
    jsonable,
    load,
    parse,
    plain_document,
    render,
    utc_text,
)
from dagprofiler._util.text import printable
from dagprofiler._version import SCHEMA_VERSION, __version__
from dagprofiler.config import Config
from dagprofiler.errors import DagProfilerWarning, ProfileError, counted, short_repr
from dagprofiler.metrics import EDGE_COLUMNS, TASK_FIELDS, DAGMetrics, EdgeMetrics, TaskMetrics
from dagprofiler.stats import DIFFERENCE

if TYPE_CHECKING:
    from dagprofiler._document.table import Frames, ProfiledTask, ProfileTable
    from dagprofiler.analysis.compare import ProfileComparison
    from dagprofiler.analysis.weights import Weights

#: Sections in which the schema describes every value.
_TABLES = {
    *("configuration", "dag_structure", "node_weights", "edge_weights"),
    *("execution_metrics", "edge_metrics", "weight_sources", "timeline", "samples", "statistics"),
}

_OUR_METADATA = {"dagprofiler_version": __version__, "schema_version": SCHEMA_VERSION}


class Profile(ProfileData, Shown):
    """The record of one run: what ran, with what, and what it cost.

    Parameters
    ----------
    config
        Parameters of the run.
    dag_structure
        ``nodes``, ``edges`` and ``execution_order``.
    metrics
        What was measured.
    final_outputs
        Outputs of the last task of the execution order.
    seed
        Seed of the run, or None.
    timestamp
        When the run started, as ISO 8601 text; by default now, in UTC.
    hostname
        Where it ran; by default this machine.
    outputs
        Outputs of the sinks and of the tasks in ``run(keep=...)``, by task.
    sections
        Further sections of the document: ``run``, ``weight_sources``,
        ``timeline``, ``environment``, and unknown ones, which are kept
        unchanged.
    metadata
        Further entries of the document's ``metadata``.

    Notes
    -----
    Values that are stored twice must be changed together: a node weight and its entry in
    ``weight_sources``, an edge weight and its entry in ``metrics.edge_metrics``.

    Two profiles are equal when their documents are. The document does not
    contain outputs: a loaded profile has none.

    Examples
    --------
    >>> from dagprofiler import DAG, task
    >>> @task(inputs=[], outputs=["x"])
    ... def source():
    ...     return {"x": 1}
    >>> profile = DAG({"source": source}, []).run()
    >>> Profile.loads(profile.dumps()) == profile
    True
    """

    def __init__(
        self,
        config: Config,
        dag_structure: dict[str, Any],
        metrics: DAGMetrics,
        final_outputs: Mapping[str, Any] | None = None,
        seed: int | None = None,
        timestamp: str | None = None,
        hostname: str | None = None,
        *,
        outputs: Mapping[str, Mapping[str, Any]] | None = None,
        sections: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.config = config
        self.dag_structure = dag_structure
        self.metrics = metrics
        self.final_outputs = {} if final_outputs is None else final_outputs
        self.outputs = {} if outputs is None else outputs
        self.seed = seed
        self.timestamp = utc_text() if timestamp is None else timestamp
        self.hostname: str | None = HOSTNAME if hostname is None else hostname
        self.sections = dict(sections or {})
        self.metadata = {**_OUR_METADATA, **(metadata or {})}
        self._edges_are_known = True

    @classmethod
    def from_run(
        cls,
        tables: Any,
        config: Config,
        seed: int | None,
        outputs: Mapping[str, Mapping[str, Any]],
        final_outputs: Mapping[str, Any],
        *,
        name: str | None = None,
    ) -> Profile:
        """Return the profile of a run that has just ended; `tables` builds its parts when used."""
        metadata = None if name is None else {"name": name}
        later: Any = None
        profile = cls(
            config, later, later, final_outputs, seed, "", outputs=outputs, metadata=metadata
        )
        profile._tables = tables
        # Without a value of its own, each is made by the cached property of its name.
        del profile.dag_structure, profile.metrics, profile.timestamp, profile.sections
        return profile

    def __getitem__(self, task: str) -> ProfiledTask:
        """Return what the profile holds about one task: times, sizes, samples, flags, spans.

        Raises
        ------
        KeyError
            If there is no such task.

        Examples
        --------
        >>> from dagprofiler import DAG, task
        >>> @task(outputs=["x"])
        ... def source():
        ...     return {"x": 1}
        >>> DAG({"source": source}).run(rounds=3)["source"].statistics["wall_ms"]["n"]
        3
        """
        from dagprofiler._document.table import profiled_task

        return profiled_task(self, task)

    @property
    def tasks(self) -> ProfileTable:
        """The tasks as a table: a row for each, with its times, sizes and flags.

        Examples
        --------
        >>> from dagprofiler import DAG, task
        >>> @task(outputs=["x"])
        ... def source():
        ...     return {"x": 1}
        >>> tasks = DAG({"source": source}).run().tasks
        >>> tasks["state"], tasks.columns["time_ms"].unit
        (['succeeded'], 'ms')
        """
        from dagprofiler._document.table import task_table

        return task_table(self)

    @property
    def edges(self) -> ProfileTable:
        """The edges as a table: a row for each, with its fields and sizes."""
        from dagprofiler._document.table import edge_table

        return edge_table(self)

    def to_pandas(self) -> Frames:
        """Return the profile as tidy data frames of pandas (extra ``pandas``).

        Returns
        -------
        Frames
            A named tuple of the frames ``tasks``, ``edges``, ``samples`` (a row for each
            value), ``timeline`` (a row for each task and round) and ``spans``.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        from dagprofiler._document.table import frames_of

        return frames_of(self)

    def to_dict(self) -> dict[str, Any]:
        """Return a copy of the document that :meth:`save` writes, as plain dicts and lists."""
        with collector_paused():
            return plain_document(self._document())

    def _document(self) -> JsonObject:
        """Return the document; parts of it are those of the profile, not copies."""
        configuration, as_text = jsonable(self.config)
        as_text += self.metadata.get("configuration_as_text", ())
        as_text = [n for n, v in configuration.items() if n in as_text and isinstance(v, str)]
        metadata = {"timestamp": self.timestamp, **self.metadata, "seed": self.seed}
        metadata.pop("configuration_as_text", None)
        if self.hostname is not None:
            metadata["hostname"] = self.hostname
        if as_text:
            metadata["configuration_as_text"] = as_text
        metrics = self.metrics
        document: JsonObject = {
            "metadata": metadata,
            "configuration": configuration,
            "dag_structure": self.dag_structure,
            "node_weights": metrics.node_weights,
            "edge_weights": metrics.edge_weights,
            "execution_metrics": [task.to_dict() for task in metrics.task_metrics],
        }
        if metrics.total_time_ms is not None:
            document["total_time_ms"] = metrics.total_time_ms
        if self._edges_are_known:
            document["edge_metrics"] = self._edge_metrics()
        return {**document, **self.sections}

    def _edge_metrics(self) -> JsonObject:
        """Return the section of that name: records in the order of the edges."""
        pairs = [(edge["source"], edge["target"]) for edge in self.dag_structure["edges"]]
        known = [(edge.source, edge.target) for edge in self.metrics.edge_metrics]
        edges: list[EdgeMetrics | None] = [*self.metrics.edge_metrics]
        if known != pairs:
            # Tasks have failed, or a program has edited the profile.
            entries = dict(zip(known, edges))
            edges = [entries.pop(pair, None) for pair in pairs]
            for source, target in entries:
                where = f"{short_repr(source)} -> {short_repr(target)}"
                raise ProfileError(f"dag_structure has no edge {where}", "$.edge_metrics")
        rows: list[Any] = [e and [e.data_fields, e.size_bytes, e.wire_bytes] for e in edges]
        if all(edge is None or edge.several is None for edge in edges):
            return {"columns": [*EDGE_COLUMNS[:-1]], "records": rows}
        several = [edge and edge.several for edge in edges]
        rows = [row and [*row, fields] for row, fields in zip(rows, several)]
        return {"columns": [*EDGE_COLUMNS], "records": rows}

    @classmethod
    def from_dict(cls, data: Any) -> Profile:
        """Return the profile in the document `data`, which is copied.

        Raises
        ------
        ProfileError
            If `data` does not satisfy the schema, refers to what it does not hold, or has a
            newer schema version than this one.
        """
        instance("a document", data, Mapping, "a mapping", error=ProfileError)
        with collector_paused():
            return cls._of_document(plain_document(data))

    @classmethod
    def _of_document(cls, data: JsonObject) -> Profile:
        """Return the profile of a document, which is emptied to release its memory."""
        # A program that only runs reads no documents.
        from dagprofiler._document.references import check_references
        from dagprofiler.schema import upgrade, validate_profile

        upgrade(data)
        try:
            validate_profile(data)
        except ProfileError as error:
            raise _pointing_to_import(error, data) from error.__cause__
        check_references(data)
        # Sections of free form may hold NaN or 1e999; the schema has checked the tables.
        check_plain({name: part for name, part in data.items() if name not in _TABLES})
        metadata = dict(data["metadata"])
        edges_are_known = "edge_metrics" in data
        edge_metrics = _edges_of(data)
        profile = cls(
            config=Config(**data.pop("configuration")),
            dag_structure=data.pop("dag_structure"),
            metrics=DAGMetrics(
                # A time that is missing is None.
                task_metrics=[
                    TaskMetrics(*[entry.get(field) for field in TASK_FIELDS])
                    for entry in data.pop("execution_metrics", ())
                ],
                edge_metrics=edge_metrics,
                node_weights=data.pop("node_weights"),
                edge_weights=data.pop("edge_weights"),
                total_time_ms=data.pop("total_time_ms", None),
            ),
            seed=metadata.pop("seed", None),
            timestamp=metadata.pop("timestamp"),
            sections={name: value for name, value in data.items() if name != "metadata"},
        )
        # The constructor's default, this host, is wrong for a loaded profile.
        profile.hostname = metadata.pop("hostname", None)
        profile.metadata = metadata
        profile._edges_are_known = edges_are_known
        return profile

    def dumps(self) -> str:
        """Return the document as JSON text, one record a line."""
        with collector_paused():
            return "".join(render(self._document().items()))

    @classmethod
    def loads(cls, text: str | bytes) -> Profile:
        """Return the profile in a JSON text; errors as :meth:`from_dict`."""
        with collector_paused():
            return cls._of_document(parse(text))

    def save(self, path: PathLike | IO[Any]) -> str:
        """Write the document as JSON.

        Parameters
        ----------
        path
            A file, or an open stream, text or binary.

        Returns
        -------
        str
            The path; of a stream its name, or an empty string.

        Raises
        ------
        OSError
            If the file cannot be written, or the existing file is not writable
            for this process.

        Warns
        -----
        DagProfilerWarning
            If the name has the suffix of another format, as ``"report.html"``, which
            :meth:`report` or :meth:`export` writes.

        Notes
        -----
        A file is replaced atomically: a reader sees the old document or the
        new one, even if this process is killed. The target of a symbolic link
        is replaced, and the link stays; a descriptor such as ``/dev/stdout``, a
        pipe or a device is written to directly. The file keeps its mode; that of a new file
        follows the umask.
        """
        with collector_paused():
            name = write(path, render(self._document().items()))
        if name.lower().endswith(FOREIGN):
            # No error: what was measured would be lost with it.
            how = "report" if ".htm" in name.lower() else "export"
            words = f"profile.{how}({name!r}) writes the format of this suffix"
            warn(f"{name!r} now holds the profile as JSON; {words}", DagProfilerWarning, 2)
        return name

    @classmethod
    def load(
        cls, path: PathLike | IO[Any], *, max_unpacked_bytes: int | None = MAX_UNPACKED_BYTES
    ) -> Profile:
        """Return the profile in a file or an open stream; errors as :meth:`from_dict`.

        Parameters
        ----------
        path
            A file, decompressed if its name ends in ``.gz``, or an open stream.
        max_unpacked_bytes
            A compressed file that unpacks to more bytes is refused; by default 1 GiB.
            None reads it whatever its size.
        """
        with collector_paused():
            return cls._of_document(load(path, max_unpacked_bytes))

    def dag_structure_at(self, moment_ms: float, *, round: int = 0) -> dict[str, Any]:
        """Return the graph at a moment: ``nodes``, ``edges`` and ``execution_order``.

        Parameters
        ----------
        moment_ms
            Milliseconds since the run began, as in ``timeline`` and ``origins``.
        round
            Number of the round; the graph grows anew in each.

        Examples
        --------
        A graph that does not grow is the same at every moment.

        >>> from dagprofiler import DAG, task
        >>> @task(outputs=["x"])
        ... def source():
        ...     return {"x": 1}
        >>> DAG({"source": source}).run().dag_structure_at(0)["nodes"]
        ['source']
        """
        structure, rows = self.dag_structure, self.origins.rows()
        grown = {row.task for row in rows}
        present = {row.task for row in rows if row.round == round and row.at_ms <= moment_ms}
        names = [name for name in structure["nodes"] if name not in grown or name in present]
        nodes = set(names)
        return {
            "nodes": names,
            "edges": [
                edge
                for edge in structure["edges"]
                if nodes.issuperset((edge["source"], edge["target"]))
            ],
            "execution_order": [name for name in structure["execution_order"] if name in nodes],
        }

    def export(
        self, path: PathLike | IO[Any], format: str | None = None, **options: Any
    ) -> tuple[str, ...]:
        """Write the profile in another tool's format.

        Parameters
        ----------
        path
            A file, or an open stream.
        format
            One of ``dagprofiler.formats.exporter_names()``; by default the
            format of the extension of `path`.
        options
            Options of the exporter.

        Returns
        -------
        tuple of str
            What the format cannot hold, one sentence each.

        Raises
        ------
        FormatError
            If the format is unknown, cannot be inferred, or has no such option.
        WeightError
            If the format needs a weight for each task and some have none.
        """
        if format is None:
            format = plugins.format_of(file_name(path))
        exporter = plugins.load(plugins.EXPORTERS, format)
        plugins.check_options(format, exporter, options)
        with collector_paused():
            export = exporter.render(self, **options)
        write(path, [export.text])
        return tuple(export.losses)

    def report(
        self,
        path: PathLike | IO[Any],
        base: Profile | None = None,
        *,
        cost: str | None = None,
        statistic: str = "median",
    ) -> tuple[str, ...]:
        """Write the profile as a page for a browser, in one file that needs no network.

        Parameters
        ----------
        path
            A file, or an open stream.
        base
            A profile to compare this one with; the page then has verdicts.
        cost, statistic
            Cost of the critical path, as for :func:`dagprofiler.analyze`; by default
            wall times if there are any, otherwise the best source of :meth:`weights`. A task
            without this cost counts as 0.

        Returns
        -------
        tuple of str
            What the page leaves out, one sentence each.

        Raises
        ------
        WeightError
            If `cost` is unknown, or no task has such a cost.
        """
        return self.export(path, "html", base=base, cost=cost, statistic=statistic)

    def draw(
        self, *, nodes: int = 60, cost: str | None = None, statistic: str = "median"
    ) -> Drawing:
        """Return a picture of the DAG and its costs, which can be saved as SVG.

        Darker tasks cost more, wider edges carry more bytes, and the critical path is marked.

        Parameters
        ----------
        nodes
            As for :meth:`DAG.draw <dagprofiler.DAG.draw>`.
        cost, statistic
            As for :meth:`report`.

        Raises
        ------
        ValueError
            If `nodes` is not an integer of at least 2.
        WeightError
            If `cost` is unknown, or no task has such a cost.
        """
        exporter = plugins.load(plugins.EXPORTERS, "html")
        drawing: Drawing = exporter.draw(self, nodes=nodes, cost=cost, statistic=statistic)
        return drawing

    def _repr_html_(self) -> str:
        return str(plugins.load(plugins.EXPORTERS, "html").excerpt(self))

    def compare(self, other: Profile, *, difference: float = DIFFERENCE) -> ProfileComparison:
        """Return how this profile differs from `other`, its base; the dict prints as tables.

        Parameters
        ----------
        difference
            The smallest relative difference of times that matters, above 0: where it might
            not have been seen, the verdict is "inconclusive".

        Returns
        -------
        ProfileComparison
            A dict. ``base`` and ``new``: what `other` and this profile are called.
            ``config_diff``: parameter to its value in ``self`` and ``other``,
            None if it has none. ``node_weight_diff`` (instructions) and
            ``edge_weight_diff`` (bits): name to ``self``, ``other``, ``diff``
            (self - other) and ``pct`` (``diff`` in percent of ``other``,
            infinite if that is 0); a task or edge that one side lacks
            counts as 0 there. ``time_diff_ms``: total time, self - other;
            None if a profile has no total time.
            Equal values are left out.
            ``total_time``, ``task_times`` and ``edge_times``: for the DAG, the tasks of both
            profiles and the edges with samples in both, the times, their ratio, self / other,
            its interval and a verdict on this profile, as
            :func:`dagprofiler.analysis.compare.compare_profiles` explains them.
            ``only_in_self``, ``only_in_other``: tasks that the other profile lacks,
            in the order of the graph; absent if there are none.
            ``prediction``: only if one of the profiles is predicted, how far off its makespan
            is, and which parts; see
            :func:`dagprofiler.analysis.compare.prediction_error`; with its ``interval_ms``, or
            None. ``in_intervals``: how many ``tasks`` of how many (``of``) took times in their
            predicted intervals, in ``compute()`` and, where it matters, to move values.
            ``obstacles``: code to sentence, why nothing can be judged.

        Raises
        ------
        ValidationError
            If `other` is no Profile.
        """
        from dagprofiler.analysis.compare import compare_profiles

        instance("compare: other", other, Profile, "a Profile")
        return compare_profiles(self, other, difference=difference)

    def weights(
        self, source: str = "best", statistic: str = "median", *, fill: float | None = None
    ) -> Weights:
        """Return a weight for every task, all from one source, with unit and provenance.

        Parameters
        ----------
        source
            ``"counted"``, ``"estimated"``, ``"reference_time"``, ``"cpu_time"``,
            ``"wall_time"``, or ``"best"``: the first of these that every task has. ``"time"`` is
            the time that tables show.
        statistic
            ``"median"``, ``"mean"``, ``"min"`` or ``"max"`` of the measured samples.
        fill
            Weight of the tasks without a value, in the unit of the source,
            finite and at least 0; by default such tasks raise a WeightError.

        Raises
        ------
        WeightError
            If a task has no value from this source (a default 0 is not a value); if
            reference times have no scale; if an argument is unknown or out of range.

        See Also
        --------
        dagprofiler.analysis.weights.weights_of : Describes each source.
        """
        from dagprofiler.analysis.weights import weights_of

        return weights_of(self, source, statistic, fill=fill)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Profile):
            return NotImplemented
        return self._document() == other._document()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        structure, total_ms = self.dag_structure, self.metrics.total_time_ms
        tasks = counted(len(structure["nodes"]), "task")
        edges = counted(len(structure["edges"]), "edge")
        time = "total time unknown" if total_ms is None else f"{total_ms} ms"
        name = "" if self.name is None else f" {printable(self.name)!r}"
        what = "predicted Profile" if "prediction" in vars(self).get("sections", ()) else "Profile"
        return f"<{what}{name}: {tasks}, {edges}, {time}>"

    def __str__(self) -> str:
        from dagprofiler.analysis.summary import summary

        return summary(self)


def _pointing_to_import(error: ProfileError, data: object) -> ProfileError:
    """Return the error for an invalid document; it names import_profile() for other formats."""
    # Most invalid documents are profiles; trying all importers takes a while.
    if not isinstance(data, dict) or "dag_structure" in data:
        return error
    formats = plugins.recognizing(data)
    if not formats:
        return error
    return ProfileError(f"not a profile but {' or '.join(formats)}, which import_profile() reads")


def _edges_of(data: JsonObject) -> list[EdgeMetrics]:
    """Take the edge metrics out of a document, or derive them from its edge weights."""
    edges = data["dag_structure"]["edges"]
    if "edge_metrics" in data:
        records = data.pop("edge_metrics")["records"]
        # The schema fixes the order of the columns.
        return [
            EdgeMetrics(edge["source"], edge["target"], *record)
            for edge, record in zip(edges, records)
            if record is not None
        ]
    ends = {f"{e['source']}->{e['target']}": (e["source"], e["target"]) for e in edges}
    return [EdgeMetrics(*ends[key], [], bits // 8) for key, bits in data["edge_weights"].items()]
