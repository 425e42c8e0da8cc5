"""Perfetto's trace processor loads what is exported, with what tracing saw inside of tasks."""

import json
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest
import traced_programs
from sample_profiles import HOSTILE, golden_profile, large_profile, profile_of, rendered
from traced_programs import chain
from wide_dag import wide

from dagprofiler import Profile, RunError, Tracer

pytestmark = pytest.mark.external

#: Of each arrow the outermost spans at its ends.
FLOWS = """
    select (select name from ancestor_slice(slice_out) where depth = 0) source,
           (select name from ancestor_slice(slice_in) where depth = 0) target,
           (select name from slice where id = slice_out) first,
           (select name from slice where id = slice_in) second
    from flow order by flow.id
"""
PHASES = """
    select p.name above, s.name below
    from slice s join slice p on p.id = s.parent_id order by s.ts
"""
WORKERS = """
    select process.name host, thread.name name from thread join process using (upid)
    where thread.name is not null and not is_main_thread order by tid
"""


@pytest.fixture
def loaded(trace_processor):
    return lambda profile: trace_processor.load(rendered("chrome_trace", profile).encode())


def shown(name):
    """A name as Perfetto shows it: without a quote in it, all JSON escapes stay."""
    if '"' in name:
        return name
    return json.dumps(name, ensure_ascii=False)[1:-1].replace("\\\\", "\\u005c")


def test_the_golden_profile_is_loaded_as_it_is(loaded):
    rows = loaded(golden_profile())
    spans = rows("select name, ts, dur from slice where category = 'task' order by ts")
    join = 'the "join" <&>', 8_000_000, 1_235_750_000
    assert spans[:2] == [("load", 1_000_000, 6_125_000), join]
    assert len(spans) == 7
    phases = rows(PHASES)
    assert phases[:2] == [("load", "compute"), ("load", "serialize")]
    assert len(phases) == rows("select count(*) from slice where category = 'phase'")[0][0]
    assert ("worker-01, pid 4711", "thread 140294440143744") in rows(WORKERS)
    errors = rows("select display_value from args where key = 'args.error'")
    assert errors == [("ValueError: no <number>",)]
    flows = rows(FLOWS)
    # Arrows lead from source to target.
    edges = [(e["source"], e["target"]) for e in golden_profile().dag_structure["edges"]]
    assert [flow[:2] for flow in flows] == edges + edges[:-1]
    assert flows[0] == ("load", 'the "join" <&>', "serialize", "deserialize")


def test_runs_of_many_rounds_or_tasks_are_loaded_whole(loaded):
    several = wide(2).run(rounds=3)
    kinds = several.sections["samples"]["rounds"]
    for profile, rounds in ((several, kinds), (large_profile(2000), [0])):
        rows = loaded(profile)
        count = len(rounds) * len(profile.dag_structure["nodes"])
        assert rows("select count(*) from slice where category = 'task'") == [(count,)]
        edges = [(edge["source"], edge["target"]) for edge in profile.dag_structure["edges"]]
        assert sorted(flow[:2] for flow in rows(FLOWS)) == sorted(edges * len(rounds))
        depths = dict(rows("select distinct category, depth from slice"))
        assert depths == {"phase": 1, "round": 0, "task": 0}


def test_hostile_names_are_told_apart_and_legible(loaded):
    profile = profile_of(HOSTILE)
    profile.sections["timeline"] = {
        "workers": [{"host": '"</script>', "pid": 2**62, "thread": 2**62}],
        "columns": ["task", "round", "worker", "compute_start_ms", "compute_end_ms"],
        "records": [[name, 0, 0, 2 * i, 2 * i + 1] for i, name in enumerate(HOSTILE)],
    }
    rows = loaded(profile)
    names = rows("select name from slice where category = 'task' order by ts")
    assert [name for (name,) in names] == list(map(shown, HOSTILE))
    assert rows("select count(*) from flow") == [(len(HOSTILE) - 1,)]


# What tracing saw inside of tasks


def in_pool(pool, programs, **options):
    with pool(2) as executor:
        return chain(**programs).run(executor=executor, **options)


def failing():
    with pytest.raises(RunError) as caught:
        chain(bad=traced_programs.fails).run(on_error="finish")
    return caught.value.profile


MANY, ILL_NESTED = {"many": traced_programs.pools}, {"nested": traced_programs.nests_ill}

RUNS = {
    "serial": lambda: chain().run(),
    "threads": lambda: in_pool(ThreadPoolExecutor, {**MANY, **ILL_NESTED}),
    "processes": lambda: in_pool(ProcessPoolExecutor, MANY, rounds=2),
    "a thousand coroutines": lambda: chain(coroutines=1000).run(),
    "failing": failing,
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
