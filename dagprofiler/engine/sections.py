"""Tables: builds the metrics and the sections of a profile from the log of a run.

The run loop stores raw readings only, in flat lists of numbers, which cost the garbage collector
nothing. Dataclasses, weights and the sections of the profile follow from them; a profile builds
each of the three on first access, so that running does not pay for reporting.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

from dagprofiler._document.rounds import (
    ALLOCATION,
    MEASURED,
    MOMENTS,
    PLAIN,
    measured_of,
    rounded,
    statistics_of,
)
from dagprofiler._util import JsonObject
from dagprofiler.engine.log import RoundLog, RunLog, duration_ms, phase_s, since_ms
from dagprofiler.metrics import DAGMetrics, EdgeMetrics, TaskMetrics
from dagprofiler.stats import corrected, median, summarize


def origins_of(log: RunLog) -> JsonObject:
    """Return the section ``origins``."""
    records: list[list[object]] = []
    fired: list[JsonObject] = []
    never_fired: list[JsonObject] = []
    for number, round_log in enumerate(log.rounds):
        if round_log.growth is None:
            continue
        for rule, at_s, tasks in round_log.growth.firings:
            (at_ms,) = log.since_start_ms([at_s])
            records += [[log.wiring.names[i], number, rule, at_ms] for i in tasks]
            fired.append({"round": number, "rule": rule, "at_ms": at_ms, "tasks": len(tasks)})
        for rule, why in round_log.growth.unfired.items():
            never_fired.append({"round": number, "rule": rule, "reason": why})
    columns = ["task", "round", "rule", "at_ms"]
    return {"columns": columns, "records": records, "fired": fired, "never_fired": never_fired}


def spans_of(log: RunLog) -> JsonObject:
    """Return the section ``spans``: what was traced inside the tasks; O(n) in their number."""
    labels: dict[tuple[str, str, str], int] = {}
    threads: dict[tuple[int | None, int, str, bool], int] = {}
    records: list[list[object]] = []
    dropped: dict[str, int] = {}
    for number, round_log in enumerate(log.rounds):
        for i, spans in round_log.facts("spans").items():
            task, worker = log.wiring.names[i], round_log.ran_on[i]
            if spans.dropped:
                dropped[task] = dropped.get(task, 0) + spans.dropped
            for thread, thread_name, computes, recorded in spans.threads:
                place = threads.setdefault((worker, thread, thread_name, computes), len(threads))
                for kind, name, category, start_s, end_s, args, number_of in recorded:
                    label = labels.setdefault((kind, name, category), len(labels))
                    times = since_ms((start_s, end_s), log.started)
                    own_id = None if number_of is None else str(number_of)
                    records.append([task, number, place, label, *times, own_id, args])
    return {
        "labels": [dict(zip(("kind", "name", "category"), label)) for label in labels],
        "threads": [dict(zip(("worker", "id", "name", "own"), thread)) for thread in threads],
        "columns": ["task", "round", "thread", "label", "start_ms", "end_ms", "id", "args"],
        "records": records,
        **({"dropped": dropped} if dropped else {}),
    }


#: Candidate for a node's weight to the column of samples that it comes from.
_METER_COLUMNS = {"counted_instructions": "instructions", "cpu_time_ms": "cpu_ms"}

#: Why no task has a candidate for a node's weight.
_LACKING = {
    "counted_instructions": "not metered: run(meters='full') counts them",
    "cpu_time_ms": "not metered: run(meters='default') and several rounds measure it",
    "estimated_instructions": "the task has no cost model",
    "reference_time_ms": (
        "the machine was not calibrated: dagprofiler.calibrate(), or several rounds, do it"
    ),
}
_NOT_FINISHED = "the task did not finish"


@dataclass(eq=False)
class Tables:
    """The parts of the profile of a run that has ended.

    Attributes
    ----------
    log
        What the run wrote down.
    """

    log: RunLog

    @property
    def timestamp(self) -> str:
        """When the run started, as ISO 8601 text."""
        return self.log.timestamp

    def dag_structure(self) -> JsonObject:
        """Return the profile's section of that name."""
        wiring, names, nodes = self.log.wiring, self.log.wiring.names, self.log.setup.workflow.nodes
        ends = [divmod(edge, len(names)) for edge in wiring.routes]
        return {
            # In the order of the argument of the DAG, then those that rules added.
            "nodes": [*nodes, *names[len(nodes) :]],
            "edges": [{"source": names[a], "target": names[b]} for a, b in ends],
            "execution_order": [names[i] for i in wiring.order],
        }

    def metrics(self) -> DAGMetrics:
        """Return the metrics of all tasks that succeeded and of the edges they feed."""
        names, order, estimates = self.log.wiring.names, self.log.wiring.order, self.log.estimates
        edges = self._edges()
        return DAGMetrics(
            task_metrics=self._tasks(),
            edge_metrics=edges,
            node_weights={names[i]: estimates.get(i, 0) for i in order},
            edge_weights={f"{edge.source}->{edge.target}": 8 * edge.size_bytes for edge in edges},
            total_time_ms=self._total_time_ms(),
        )

    def sections(self) -> JsonObject:
        """Return the profile's sections on the run itself."""
        log = self.log
        sections = {"run": self._run(), "weight_sources": self._weight_sources()}
        if self._samples is not None:
            sections["samples"] = self._samples
            if len(log.rounds) > 1:
                sections["statistics"] = statistics_of(self._samples, differing_outputs(log))
        records: list[list[object]] = []
        for number, round_log in enumerate(log.rounds):
            records += self._timeline(number, round_log)
        columns = ["task", "round", "worker", *MOMENTS]
        sections["timeline"] = {"workers": log.workers, "columns": columns, "records": records}
        if any(round_log.facts("spans") for round_log in log.rounds):
            sections["spans"] = spans_of(log)
        if any(round_log.growth is not None for round_log in log.rounds):
            sections["origins"] = origins_of(log)
        schedule = log.setup.options.schedule
        if schedule is not None:
            sections["schedule"] = {node: [*tasks] for node, tasks in schedule.items()}
        sections["environment"] = {**log.environment, "not_measured": self._not_measured()}
        return sections

    @cached_property
    def _rounds(self) -> list[RoundLog]:
        """The rounds of which the metrics are medians: the measured ones, or all without one."""
        return self.log.measured() or self.log.rounds

    @cached_property
    def _samples(self) -> JsonObject | None:
        return samples_of(self.log)

    @cached_property
    def _compute_ms(self) -> list[Any]:
        return self._median_ms(2)

    def _median_ms(self, start: int) -> list[Any]:
        """Return the time of a phase of each task, of several rounds the median.

        None for tasks that succeeded in no round; `start` as for :func:`phase_s`.
        """
        columns = [phase_s(round_log, start) for round_log in self._rounds]
        if len(columns) == 1:
            return since_ms(columns[0])
        times = [[column[i] for column in columns] for i in range(len(self.log.wiring.names))]
        finished = [[s for s in row if s is not None] for row in times]
        return [duration_ms(median(row)) if row else None for row in finished]

    def _sizes(self, tasks: Iterable[int], columns: Sequence[list[int]]) -> list[int]:
        """Return a size at each place: the lower median, which is a whole number of bytes.

        Parameters
        ----------
        tasks
            For each place a task: rounds in which it failed do not count. Without any other, the
            size is 0.
        columns
            For each of the rounds the sizes.
        """
        if len(columns) == 1:
            return columns[0]
        medians = []
        for place, task in enumerate(tasks):
            logs = zip(self._rounds, columns)
            sizes = sorted(column[place] for round_log, column in logs if round_log.succeeded(task))
            medians.append(sizes[(len(sizes) - 1) // 2] if sizes else 0)
        return medians

    @cached_property
    def _wire_bytes(self) -> list[int]:
        """The serialized length of the value in each slot."""
        columns = [round_log.wire_bytes for round_log in self._rounds]
        return self._sizes(self.log.wiring.owner, columns)

    def _total_time_ms(self) -> float:
        """Return the duration of the run; of several rounds the median."""
        rounds = self.log.rounds
        if self._samples is None:
            return duration_ms(self.log.costs.total_s)
        complete = [round_log for round_log in rounds if round_log.complete]
        # An incomplete round counts only if no round is complete.
        measured = [round_log for round_log in complete if round_log.kind == MEASURED]
        counted = measured or complete or rounds
        return duration_ms(median([round_log.total_s for round_log in counted]))

    def _tasks(self) -> list[TaskMetrics]:
        """Return the figures of the tasks that succeeded, in execution order."""
        wiring, names, given = self.log.wiring, self.log.wiring.names, self.log.given_bytes
        wire_bytes, compute_ms = self._wire_bytes, self._compute_ms
        serialize_ms, deserialize_ms = self._median_ms(4), self._median_ms(0)
        tasks = range(len(names))
        notes = [round_log.facts("undeclared_bytes") for round_log in self._rounds]
        undeclared = self._sizes(tasks, [[noted.get(i, 0) for i in tasks] for noted in notes])
        first_input, first_slot, outputs = wiring.first_input, wiring.first_slot, wiring.outputs
        # The bytes of all inputs, and of all slots, before each.
        arrived = [0, *accumulate([wire_bytes[slot] for slot in wiring.slots])]
        left = [0, *accumulate(wire_bytes)]
        return [
            TaskMetrics(
                names[i],
                compute_ms[i],
                serialize_ms[i],
                deserialize_ms[i],
                arrived[first_input[i + 1]] - arrived[first_input[i]] + given.get(i, 0),
                left[first_slot[i] + len(outputs[i])] - left[first_slot[i]] + undeclared[i],
            )
            for i in wiring.order
            if compute_ms[i] is not None
        ]

    def _edges(self) -> list[EdgeMetrics]:
        """Return what each edge carried whose source succeeded, by source."""
        wiring, names, wire = self.log.wiring, self.log.wiring.names, self._wire_bytes
        payload = self._sizes(wiring.owner, [round_log.payloads() for round_log in self._rounds])
        compute_ms, first_slot, outputs = self._compute_ms, wiring.first_slot, wiring.outputs
        edges = []
        # Saving and printing wait for this loop; most edges carry one output.
        for source, target, routes in wiring.edges():
            if compute_ms[source] is None:
                continue
            first, declared, several = first_slot[source], outputs[source], None
            if len(routes) == 1 and routes[0][0] < len(declared):
                place = routes[0][0]
                fields = [declared[place]]
                size_bytes, wire_bytes = payload[first + place], wire[first + place]
            else:
                fields = [wiring.field(source, place) for place, _ in routes]
                slots = [first + place for place, _ in routes]
                sizes = [{"size_bytes": payload[slot], "wire_bytes": wire[slot]} for slot in slots]
                size_bytes = sum([payload[slot] for slot in slots])
                wire_bytes = sum([wire[slot] for slot in slots])
                several = dict(zip(fields, sizes)) if len(slots) > 1 else None
            a, b = names[source], names[target]
            edges.append(EdgeMetrics(a, b, fields, size_bytes, wire_bytes, several))
        return edges

    def _timeline(self, number: int, round_log: RoundLog) -> list[list[object]]:
        """Return the rows of the tasks that started in a round, in execution order."""
        log, wiring = self.log, self.log.wiring
        readings = log.since_start_ms(round_log.times)
        moments = [readings[k : k + 6] for k in range(0, len(readings), 6)]
        ready = log.since_start_ms([round_log.started_s]) * len(wiring.names)
        if round_log.growth is not None:
            added_s = [max(round_log.started_s, added_s) for added_s in round_log.growth.added_s]
            ready = log.since_start_ms(added_s)
        ends: Any = readings[5::6]
        for failed in round_log.errors:
            ends[failed] = None
        for source, target in wiring.pairs():
            end = ends[source]
            if end is not None and end > ready[target]:
                ready[target] = end
        names, ran_on = wiring.names, round_log.ran_on
        return [
            [names[i], number, ran_on[i], ready[i], *moments[i]]
            for i in wiring.order
            if moments[i][0] is not None
        ]

    def _run(self) -> JsonObject:
        log = self.log
        section: JsonObject = {
            "state": "complete" if log.reason is None else "partial",
            "overhead": self._overhead(),
            "executor": log.executor,
            "rounds": sum(round_log.complete for round_log in log.measured()),
        }
        if self._samples is not None:
            section["conditions"] = log.conditions.to_dict()
            section["elapsed_ms"] = duration_ms(log.costs.total_s)
            if log.executor == "serial" and not (log.resumed or log.conditions.fresh_process):
                section["other_threads_ms"] = duration_ms(log.costs.other_threads_s)
            if log.ended_by is not None:
                section["ended_by"] = log.ended_by
        attempts: dict[str, list[JsonObject]] = {}
        for number, round_log in enumerate(log.rounds):
            for i, lost in round_log.facts("attempts").items():
                errors = [{"round": number, "error": why} for why in lost]
                attempts.setdefault(log.wiring.names[i], []).extend(errors)
        optional: JsonObject = {"attempts": attempts, "resumed": log.resumed, "bound": log.bound}
        optional["priorities"] = log.setup.priorities
        section.update({name: value for name, value in optional.items() if value})
        if any(round_log.legacy_generators is False for round_log in log.rounds):
            section["legacy_generators"] = False
        if log.reason is not None:
            section["reason"] = log.reason
            section["tasks"] = self._states()
        return section

    def _overhead(self) -> dict[str, float]:
        """Return the overhead outside the tasks, by kind, over all rounds."""
        costs, rounds = self.log.costs, self.log.rounds
        in_tasks_s = sum([_in_tasks_s(round_log) for round_log in rounds])
        # Where tasks run elsewhere, measuring them delays no loop.
        here = [round_log for round_log in rounds if round_log.waited_s is None]
        measuring_s = sum(log.spent_s("meters_s", "garbage_s", "store_s") for log in here)
        growths = [round_log.growth for round_log in rounds if round_log.growth is not None]
        rules_s = sum(growth.rules_s for growth in growths)
        # Tasks, measuring them and waiting for them are not overhead of the loop.
        aside_s = in_tasks_s + measuring_s + costs.garbage_s
        aside_s += costs.prepare_s + costs.hooks_s + rules_s
        loop_s = max(0.0, costs.total_s - aside_s)
        overhead_s = {"prepare_ms": costs.prepare_s, "loop_ms": loop_s, "hooks_ms": costs.hooks_s}
        if growths:
            overhead_s["rules_ms"] = rules_s
        store_s = sum(round_log.spent_s("store_s") for round_log in rounds)
        if store_s:
            overhead_s["journal_ms"] = store_s
        if self._samples is not None:
            garbage_s = sum(round_log.spent_s("garbage_s") for round_log in rounds)
            overhead_s["meters_ms"] = sum(round_log.spent_s("meters_s") for round_log in rounds)
            overhead_s["garbage_ms"] = costs.garbage_s + garbage_s
            in_rounds_s = max(0.0, sum(round_log.total_s for round_log in rounds) - in_tasks_s)
            overhead_s["between_rounds_ms"] = max(0.0, loop_s - in_rounds_s)
            overhead_s["loop_ms"] -= overhead_s["between_rounds_ms"]
        return {kind: duration_ms(seconds) for kind, seconds in overhead_s.items()}

    def _states(self) -> JsonObject:
        """Return the tasks that did not succeed in the last round, and their states."""
        log = self.log
        if not log.rounds:
            return {name: {"state": "cancelled"} for name in log.wiring.names}
        last, number = log.rounds[-1], len(log.rounds) - 1
        states: JsonObject = {}
        for i in log.wiring.order:
            if last.succeeded(i):
                continue
            note = last.note_of(i)
            state: JsonObject = {"state": "skipped" if note.skipped else "cancelled"}
            if note.error is not None:
                state = {"state": "failed", "error": note.error}
                if note.traceback:
                    state["traceback"] = note.traceback
            states[log.wiring.names[i]] = {**state, "round": number} if number else state
        return states

    def _weight_sources(self) -> JsonObject:
        """Return where each task's weight comes from, and its candidates; empty without any."""
        if not self._candidates:
            return {}
        return {self.log.wiring.names[i]: self._sources_of(i) for i in self.log.wiring.order}

    def _sources_of(self, i: int) -> JsonObject:
        has_model, finished = i in self.log.estimates, self._compute_ms[i] is not None
        values = {candidate: column[i] for candidate, column in self._candidates.items()}
        reasons = {}
        lacking = [candidate for candidate, value in values.items() if value is None]
        for candidate in lacking:
            if candidate == "estimated_instructions":
                reasons[candidate] = _LACKING[candidate]
            elif finished:
                column = _METER_COLUMNS.get(candidate, "")
                reasons[candidate] = self._why.get(column, "the task was not metered")
            else:
                reasons[candidate] = _NOT_FINISHED
        weight = "estimated_instructions" if has_model else "default"
        return {"node_weight": weight, **values, **({"reasons": reasons} if reasons else {})}

    @cached_property
    def _candidates(self) -> dict[str, Sequence[float | None]]:
        """Each candidate for a node's weight besides wall time, by task number."""
        tasks = range(len(self.log.wiring.names))
        candidates: dict[str, Sequence[float | None]] = {
            "estimated_instructions": [self.log.estimates.get(i) for i in tasks]
        }
        candidates.update({name: self._medians(column) for name, column in _METER_COLUMNS.items()})
        calibration = self.log.environment.get("calibration")
        if calibration is not None:
            times_ms = self._medians("corrected_ms")
            if times_ms.count(None) == len(times_ms):
                times_ms = self._compute_ms
            candidates["reference_time_ms"] = [
                None if ms is None else round(ms * calibration["score"], 6) for ms in times_ms
            ]
        return {name: row for name, row in candidates.items() if row.count(None) < len(row)}

    def _medians(self, column: str) -> list[float | None]:
        """Return the median of a column of samples, or None, for each task."""
        if self._samples is None:
            return []
        kinds, tasks = self._samples["rounds"], self._samples["tasks"]
        rows = [measured_of(kinds, tasks[name].get(column, ())) for name in self.log.wiring.names]
        return [_typical(values) if values else None for values in rows]

    @cached_property
    def _why(self) -> dict[str, str]:
        """Why a meter has no reading, by column."""
        return {
            column: why
            for round_log in self.log.rounds
            for column, why in round_log.reasons.items()
        }

    def _not_measured(self) -> dict[str, str]:
        """Return the quantities that no task has, and why."""
        metered = {column for round_log in self.log.rounds for column in round_log.columns}
        reasons = {**self.log.setup.workflow.unknown, **self._why}
        for candidate, why in _LACKING.items():
            if candidate not in self._candidates:
                column = _METER_COLUMNS.get(candidate, "")
                default = _NOT_FINISHED if column in metered else why
                reasons[candidate] = reasons.get(column, default)
        return reasons


def _in_tasks_s(round_log: RoundLog) -> float:
    """Return the time that the run loop ran tasks, or waited for those that ran elsewhere."""
    if round_log.waited_s is not None:
        return round_log.waited_s
    phases = zip(round_log.times[::2], round_log.times[1::2])
    return sum(end - start for start, end in phases if start is not None and end is not None)


def _typical(values: Sequence[float]) -> float:
    """Return the median; for integers an integer."""
    middle = median(values)
    return round(middle) if all(type(value) is int for value in values) else round(middle, 6)


#: The precision of a task decides on more rounds if it takes this share of the total time.
_WEIGHTY = 0.01

#: Column of samples to the position of the reading of the clock that began its phase.
_PHASE_STARTS = {"deserialize_ms": 0, "wall_ms": 2, "serialize_ms": 4}


def samples_of(log: RunLog) -> JsonObject | None:
    """Return the section ``samples``: every measured value, in the order of the rounds.

    None for a plain run: a single round without meters and conditions.
    """
    metered = any(round_log.columns for round_log in log.rounds)
    if not log.rounds or not (metered or len(log.rounds) > 1 or log.conditions not in PLAIN):
        return None
    rounds, names = log.rounds, log.wiring.names
    phases = {
        column: [_phase_ms(round_log, start) for round_log in rounds]
        for column, start in _PHASE_STARTS.items()
    }
    meters = dict.fromkeys(column for round_log in rounds for column in round_log.columns)
    tasks = {}
    for i in log.wiring.order:
        columns = {column: [times[i] for times in by_round] for column, by_round in phases.items()}
        readings = [
            round_log.meters_of(i) if round_log.succeeded(i) else {} for round_log in rounds
        ]
        for column in meters:
            values = [read.get(column) for read in readings]
            columns[column] = [rounded(v) for v in values] if column.endswith("_ms") else values
        if "delay_ms" in columns:
            cpu_ms = columns.get("cpu_ms", [None] * len(rounds))
            columns["corrected_ms"] = [
                None if wall is None else rounded(corrected(wall, delay, cpu))
                for wall, delay, cpu in zip(columns["wall_ms"], columns["delay_ms"], cpu_ms)
            ]
        tasks[names[i]] = columns
    return {
        "rounds": [round_log.kind for round_log in rounds],
        "total_ms": [
            duration_ms(round_log.total_s) if _is_timed(round_log) and round_log.complete else None
            for round_log in rounds
        ],
        "tasks": tasks,
        "edges": _edge_samples(log),
    }


def _is_timed(round_log: RoundLog) -> bool:
    """Tell whether the times of a round count: tracing allocations slows all tasks down."""
    return round_log.kind != ALLOCATION


def _phase_ms(round_log: RoundLog, start: int) -> list[float | None]:
    """Return the time of a phase of each task in milliseconds, as :func:`phase_s`."""
    times_ms = since_ms(phase_s(round_log, start))
    return times_ms if _is_timed(round_log) else [None] * len(times_ms)


_EDGE_COLUMNS = ("serialize_ms", "deserialize_ms", "size_bytes", "wire_bytes")


def _edge_samples(log: RunLog) -> JsonObject:
    """Return for each edge its times and sizes, with one entry a round."""
    wiring, names = log.wiring, log.wiring.names
    #: For each edge its places among the inputs of its target.
    places_of: dict[tuple[int, int], list[int]] = {}
    targets = {target for _, target, _ in wiring.edges()}
    for target in targets:
        for place, (_, slot) in enumerate(wiring.feeds(target)):
            places_of.setdefault((wiring.owner[slot], target), []).append(place)
    decode_s_of = [{i: round_log.decode_s(i) for i in targets} for round_log in log.rounds]
    payloads = [round_log.payloads() for round_log in log.rounds]
    edges = {}
    for source, target, routes in wiring.edges():
        positions = [position for position, _ in routes]
        slots = [wiring.first_slot[source] + position for position in positions]
        places = places_of.get((source, target), [])
        rows: list[Sequence[object]] = []
        for round_log, decode_s, payload in zip(log.rounds, decode_s_of, payloads):
            row: list[object] = [None] * len(_EDGE_COLUMNS)
            if _is_timed(round_log) and round_log.succeeded(source):
                row = [
                    _sum_ms(round_log.encode_s(source), positions),
                    _sum_ms(decode_s[target], places) if round_log.succeeded(target) else None,
                    sum(payload[slot] for slot in slots),
                    sum(round_log.wire_bytes[slot] for slot in slots),
                ]
            rows.append(row)
        edges[f"{names[source]}->{names[target]}"] = {
            column: [*values] for column, values in zip(_EDGE_COLUMNS, zip(*rows))
        }
    return edges


def _sum_ms(seconds: Sequence[float | None], places: Sequence[int]) -> float | None:
    """Return the sum of some times; None if one of them was not taken."""
    taken = [seconds[place] if place < len(seconds) else None for place in places]
    return None if None in taken else duration_ms(sum(taken))  # type: ignore[arg-type]


def differing_outputs(log: RunLog) -> list[str]:
    """Return the tasks whose serialized outputs differed between rounds."""
    digests_of: dict[int, set[str]] = {}
    for round_log in log.rounds:
        for i, readings in round_log.readings.items():
            if readings.digest is not None:
                digests_of.setdefault(i, set()).add(readings.digest)
    return [log.wiring.names[i] for i in sorted(digests_of) if len(digests_of[i]) > 1]


def is_precise(log: RunLog, precision: float) -> bool:
    """Tell whether the medians of all weighty tasks are known to plus or minus `precision`."""
    rounds = log.measured()
    walls_s = [phase_s(round_log, 2) for round_log in rounds]
    by_task = [
        [_corrected_s(round_log, i, wall_s[i]) for round_log, wall_s in zip(rounds, walls_s)]
        for i in range(len(log.wiring.names))
    ]
    medians = [median(times) for times in by_task]
    # If no task has that share, the longest tasks decide.
    least = min(_WEIGHTY * sum(medians), max(medians, default=0.0))
    return all(
        summarize(times).half_width <= precision
        for times, middle in zip(by_task, medians)
        if middle >= least
    )


def _corrected_s(round_log: RoundLog, i: int, wall_s: float | None) -> float:
    """Return a time in compute() without run-queue delay, if that was metered."""
    readings = round_log.meters_of(i)
    wall_ms = (wall_s or 0.0) * 1e3
    without = corrected(wall_ms, readings.get("delay_ms"), readings.get("cpu_ms"))
    return (wall_ms if without is None else without) / 1e3
