"""Measure what exporting, analysing and importing cost beside JSON's own writer and reader.

``python tests/benchmarks/bench_exporters.py [--quick]``
"""

import copy
import json
from functools import partial
from pkgutil import resolve_name
from statistics import median

from harness import cpu_seconds, either, exponent, in_turns, print_rows, spread, times

# isort: split

from contender import sparse

from dagprofiler import DAG, Profile
from dagprofiler._util.json import collector_paused, parse
from dagprofiler.analysis.critical_path import analyze

#: What is exported: an exporter of ``dagprofiler.formats``, and options. Mermaid's is beyond what
#: GitHub draws.
EXPORTS = {
    "saga": ("saga:EXPORTER", {"network": {"speeds": {"a": 1, "b": 2}, "bandwidth": 1e5}}),
    "wfformat": ("wfformat:EXPORTER", {}),
    "node_link": ("node_link:NODE_LINK", {}),
    "graphml": ("node_link:GRAPHML", {}),
    "dot": ("pictures:DOT", {}),
    "mermaid": ("pictures:MERMAID", {}),
    **{f"csv, {table}": ("csv:EXPORTER", {"table": table}) for table in ("tasks", "edges")},
    "chrome_trace": ("chrome_trace:EXPORTER", {}),
}


def works_of(document):
    """Return what is measured on a profile, each with JSON's own, by its words and goal."""
    loaded = Profile.from_dict(document)

    # A profile keeps some of what it is asked for, a copy of one that was asked nothing does not.
    def exported(where, options):
        # By its place: in a checkout that is not installed there are no entry points.
        exporter = resolve_name(f"dagprofiler.formats.{where}")
        with collector_paused():
            return exporter.render(copy.copy(loaded), **options).text

    def analysed():
        return str(analyze(copy.copy(loaded), cost="wall_time", bandwidth_bits_per_s=1e9))

    instance = exported("wfformat:EXPORTER", {})
    importer = resolve_name("dagprofiler.formats.wfformat:IMPORTER")

    def imported():
        with collector_paused():
            return importer.read(parse(instance))

    dumped = partial(json.dumps, document)
    exports = {
        (f"export, `{what}`", "3 x, linear"): (partial(exported, *how), dumped)
        for what, how in EXPORTS.items()
    }
    return {
        **exports,
        ("`analyze` and its text", "linear"): (analysed, dumped),
        ("import of WfFormat, to json.loads", "linear"): (imported, partial(json.loads, instance)),
    }


def formats():
    """Measure JSON's own, the work, and the same on a smaller profile in turns."""
    sizes = either([25_000, 100_000], [2_500, 10_000])
    small, large = (works_of(DAG(*sparse(size)).run().to_dict()) for size in sizes)
    yield f"{sizes[-1]:,} tasks, two edges each:", "", "", "", ""
    for (what, goal), (work, base) in large.items():
        few, many, dumped = in_turns(5, small[what, goal][0], work, base, seconds=cpu_seconds)
        powers = spread([exponent(sizes, took_s) for took_s in zip(few, many)])
        yield what, goal, times(many, dumped), f"{median(many):.2f} s", f"n^{powers}"


if __name__ == "__main__":
    head = "work | goal | to json.dumps | CPU time | grows with"
    print_rows(__doc__, [formats], head)
