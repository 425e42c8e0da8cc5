"""Whatever is done to the records of a journal: it is resumed correctly, or refused."""

import copy
import random
import warnings
from types import SimpleNamespace

import pytest
from journal_files import chained, copied, parsed, rewrite

from dagprofiler import DAG, Config, Journal, JournalError, Profile, Rounds, Tracer, task
from dagprofiler.journal.past import check_shape
from dagprofiler.rules import map_over, reduce
from dagprofiler.tracing import span


@task(outputs=["numbers", "name"])
def source(cfg, more):
    with span("count", n=cfg.n):
        return {"numbers": list(range(cfg.n + more)), "name": "source"}


@task(outputs=["double"])
def twice(number):
    return {"double": number * 2}


@task(outputs=["total"], gathers=["double"])
def total(double):
    return {"total": double}


def fixed():
    edges = [("source", "double", {"numbers": "number"}), ("double", "total")]
    return DAG({"source": source, "double": twice, "total": total}, edges, Config(n=2))


def growing():
    rules = [map_over("source", "numbers", twice, name="double"), reduce("double", total)]
    return DAG({"source": source}, config=Config(n=2), rules=rules)


ROUNDS = Rounds(2, warmup=1, collect_garbage=None, check_outputs=True)
#: A program, and what it is asked for.
PROGRAMS = {
    "plain": (fixed, {}),
    "rounds": (fixed, {"rounds": ROUNDS, "meters": "full", "keep": ["source"]}),
    "grown": (growing, {"meters": "cpu"}),
}


@pytest.fixture(scope="module")
def journals(tmp_path_factory):
    """Three journals of each program: complete, resumed and complete, and half done."""
    made = {}
    for name, (program, asked) in PROGRAMS.items():
        directory = tmp_path_factory.mktemp(name) / "complete"
        hooks = [Journal(directory), Tracer()]
        given = {"inputs": {"source": {"more": 1}}, "seed": 1, "hooks": hooks, **asked}
        first = program().run(**given)
        lines = (directory / "journal").read_bytes().splitlines(keepends=True)
        half = copied(directory, directory.parent / "half")
        (half / "journal").write_bytes(b"".join(lines[: len(lines) // 2]))
        resumed = copied(half, half.parent / "resumed")
        program().resume(resumed)
        made[name] = first.final_outputs, [directory, half, resumed]
    return made


def places(value, apart=()):
    """Yield each list and dict with each index or key that it has, below those `apart` none."""
    if isinstance(value, (list, dict)):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            # It would start so many processes.
            if key != "busy_cores":
                yield value, key
                if key not in apart:
                    yield from places(value[key], apart)


#: What stands where something else should.
ODD = [
    *(None, True, False, -1, 0, 2**70, 0.5, -0.5, 1e300, float("nan"), float("inf")),
    *("", "x", "../x", "\0", "\ud800", "1970-01-01", [], {}, [None], {"x": 1}, [[0.5]]),
]


def damaged(chance, kept):
    """Return the text of records of which one, or a value in one, is missing or another."""
    deed = chance.choice(["drop", "repeat", "move", *["edit", "delete"] * 3])
    place, (holder, key) = chance.randrange(len(kept)), chance.choice(list(places(kept)))
    if deed == "drop":
        del kept[place]
    elif deed == "delete":
        del holder[key]
    elif deed == "edit":
        other, its = chance.choice(list(places(kept)))
        holder[key] = copy.deepcopy(chance.choice([*ODD, other, other[its]]))
    else:
        kept.insert(place, kept[-1] if deed == "repeat" else kept.pop())
    kept = kept or [None]
    return b"".join(chained(kept, numbered=isinstance(kept[0], dict) and chance.random() < 0.9))


def try_mutations(journals, numbers):
    refused = 0
    for number in numbers:
        chance = random.Random(number)
        name = chance.choice([*PROGRAMS])
        expected, directories = journals[name]
        directory = copied(chance.choice(directories), directories[0].parent / "mutated")
        path = directory / "journal"
        path.write_bytes(damaged(chance, parsed(directory)))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                profile = PROGRAMS[name][0]().resume(directory)
            assert Profile.loads(profile.dumps()) == profile
            assert profile.final_outputs == expected
        except JournalError:
            refused += 1
        except BaseException as error:
            raise AssertionError(f"mutation {number} of {name}") from error
    return refused


#: What is described elsewhere: in the profile's schema, by what reads it, or not at all.
APART = {"rounds", "spans", "environment", "worker", "meters"}
OTHERS = {
    **dict.fromkeys((int, float), ("x", -(2**64), 2**64, True)),
    **dict.fromkeys((list, dict), (5, "x")),
    str: (5,),
    bool: (0, None),
    type(None): ([],),
}


def test_each_value_of_each_record_has_to_be_there_and_of_its_kind(journals):
    header, *records = parsed(journals["grown"][1][2])
    file = SimpleNamespace(path="journal", header=header, records=records)
    check_shape(file)
    for record in {frozenset(record): record for record in [header, *records]}.values():
        optional = {"added_ms", "after", "bound"} if record is not header else set()
        for holder, key in [*places(record, APART)]:
            value = holder[key]
            wrong = [] if key in {"record", "format"} else OTHERS[type(value)]
            for other in wrong[: 2 if key == "gap_ms" else None]:
                holder[key] = other
                with pytest.raises(JournalError, match=f"line {record['record'] + 1}: "):
                    check_shape(file)
            if holder is record and wrong and key not in optional:
                del record[key]
                with pytest.raises(JournalError, match=f"line {record['record'] + 1}: .* missing"):
                    check_shape(file)
            holder[key] = value


def test_a_task_that_a_rule_added_says_when(journals):
    directory = copied(journals["grown"][1][0], journals["grown"][1][0].parent / "mutated")
    kept = parsed(directory)
    kept[2]["added_ms"] = None
    rewrite(directory, kept)
    with pytest.raises(JournalError, match=r"line 3: .*'double\[0\]', and no rule added it"):
        growing().resume(directory)


@pytest.mark.parametrize(
    "numbers", [range(90), pytest.param(range(90, 440), marks=pytest.mark.slow)]
)
def test_mutated_journals_are_resumed_or_refused(journals, numbers):
    assert len(numbers) / 2 <= try_mutations(journals, numbers) < len(numbers)
