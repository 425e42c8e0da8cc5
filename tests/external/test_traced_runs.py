"""Perfetto's trace processor finds in the trace of a run what tracing saw inside its tasks."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest
import traced_programs
from sample_profiles import HOSTILE, rendered
from test_perfetto import shown
from traced_programs import chain

from dagprofiler import Profile, RunError, Tracer

pytestmark = pytest.mark.external


def in_pool(pool, programs, **options):
    with pool(2) as executor:
        return chain(**programs).run(executor=executor, **options)


def failing():
    with pytest.raises(RunError) as caught:
        chain(bad=traced_programs.Fails).run(on_error="finish")
    return caught.value.profile


MANY = {"many": traced_programs.Pool}
ILL_NESTED = {"nested": traced_programs.IllNested}

RUNS = {
    "serial": lambda: chain().run(),
    "threads": lambda: in_pool(ThreadPoolExecutor, {**MANY, **ILL_NESTED}),
    "processes": lambda: in_pool(ProcessPoolExecutor, MANY, rounds=2),
    "a thousand coroutines": lambda: chain(coroutines=1000).run(),
    "failing": failing,
    "several rounds": lambda: chain().run(rounds=3),
    "ill nested": lambda: chain(**ILL_NESTED).run(rounds=2),
    "counters": lambda: chain(counts=traced_programs.Counts).run(),
    "hostile names": lambda: chain(hostile=traced_programs.Named(HOSTILE)).run(),
    "functions": lambda: chain().run(hooks=[Tracer(["textwrap", "json"], floor_ms=0)]),
}


@pytest.mark.parametrize("kind", RUNS)
def test_a_run_is_loaded_with_all_that_was_seen_inside(trace_processor, kind):
    profile = RUNS[kind]()
    section = profile.sections["spans"]
    slices, values = Counter(), Counter()
    for record in section["records"]:
        label = section["labels"][record[3]]
        if label["kind"] == "counter":
            values.update(len(record[7]) * [label["name"]])
        else:
            slices[shown(label["name"]), shown(label["category"])] += 1

    trace = rendered("chrome_trace", Profile.loads(profile.dumps()))
    rows = trace_processor.load(trace.encode())

    inside = "select name, category, count(*) n from slice where category not in {} group by 1, 2"
    found = {row[:2]: row[2] for row in rows(inside.format("('round', 'task', 'phase')"))}
    assert found == dict(slices)
    assert rows("select count(*) from counter") == [(sum(values.values()),)]
    ran = len(profile.sections["timeline"]["records"])
    assert rows("select count(*) from slice where category = 'task'") == [(ran,)]
    # What a thread did lies in its task, at whatever depth.
    homeless = """
        select count(*) from slice s join thread_track t on t.id = s.track_id
        where s.category = 'span' and s.dur > 0 and s.name in ('read', 'fill', 'fails')
        and not exists (select 1 from ancestor_slice(s.id) a where a.category = 'task')
    """
    assert rows(homeless) == [(0,)]
