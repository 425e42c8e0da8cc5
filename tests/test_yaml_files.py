import pytest

from dagprofiler import DAG, Config, GraphError, task


@task(outputs=["data", "labels"])
def collect(cfg):
    return {"data": cfg.N, "labels": "x"}


@task(inputs=["data"], outputs=["result"])
def classify(**fields):
    fields.pop("cfg")
    return {"result": fields}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "dag.yaml"


def read(path, text):
    path.write_text(text, encoding="utf-8")
    return DAG.from_yaml(path)


HEAD = f"""\
config:
  N: 4
tasks:
  collect: {{module: {__name__}, class: collect}}
  classify: {{module: {__name__}, class: classify}}
"""


def test_config_tasks_and_edges_are_read(path):
    dag = read(path, HEAD + "edges:\n  - [collect, classify]\n")
    assert dag.config == Config(N=4)
    assert list(dag.tasks) == ["collect", "classify"]
    assert isinstance(dag.tasks["collect"], collect)
    assert dag.run().final_outputs == {"result": {"data": 4}}
    dag = read(path, "config: {cells: [1, 2], radio: {band: n78}}")
    assert dag.config == {"cells": [1, 2], "radio": {"band": "n78"}}
    for text in ("{}", "config:\ntasks:\nedges:\n", "tasks: {}\nedges: []"):
        dag = read(path, text)
        assert (dag.tasks, dag.config, dag.execution_order) == ({}, Config(), [])
    own = type("Own", (DAG,), {})
    assert type(own.from_yaml(str(path))) is own
    with pytest.raises(FileNotFoundError):
        DAG.from_yaml(path.parent / "nowhere.yaml")


@pytest.mark.parametrize(
    ("edge", "fields", "received"),
    [
        ("[collect, classify]", ["data"], {"data": 4}),
        ("[collect, classify, [labels]]", ["labels"], {"labels": "x"}),
        ("[collect, classify, []]", [], {}),
        ("[collect, classify, {labels: data}]", ["labels"], {"data": "x"}),
        ("{source: collect, target: classify}", ["data"], {"data": 4}),
        ("{source: collect, target: classify, data: }", ["data"], {"data": 4}),
        ("{source: collect, target: classify, data: [labels]}", ["labels"], {"labels": "x"}),
        ("{source: collect, target: classify, data: []}", [], {}),
        ("{source: collect, target: classify, data: {labels: data}}", ["labels"], {"data": "x"}),
    ],
)
def test_edges_in_yaml_are_lists_or_mappings(path, edge, fields, received):
    dag = read(path, f"{HEAD}edges: [{edge}]\n")
    assert dag.edge_fields == {("collect", "classify"): fields}
    assert dag.run().final_outputs == {"result": received}


def tasks_of(module, name="A"):
    return f"tasks: {{a: {{module: {module}, class: {name}}}}}"


NEEDED = "task 'a': expected 'module' and 'class', got "
ENDS = "edge 2: expected 'source' and 'target', got {"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected a mapping with tasks, edges and config, got None"),
        ("tasks: " + 1000 * "[", "not YAML: maximum recursion depth"),
        ("config: {1: 2}", "config: "),
        ("tasks: [a]", "tasks: expected a mapping, got ['a']"),
        *((text, "not YAML: ") for text in ("tasks: [", "a: b: c", "\t- x", "tasks: \x00")),
        ("!!python/object:os.system {}", "not YAML: "),
        *((f"tasks: {{a: {spec}}}", NEEDED) for spec in ("5", "a.B", "{module: os}", "{class: A}")),
        (tasks_of("no_such_module"), "task 'a': No module named 'no_such_module'"),
        (tasks_of(__name__, "Nope"), f"task 'a': module {__name__!r} has no attribute 'Nope'"),
        *((tasks_of(module), "task 'a': ") for module in ("''", "5", ".relative", "")),
        *(
            (f"{HEAD}edges: [[collect, classify], {edge}]", ENDS)
            for edge in ("{source: a}", "{target: a}", "{data: []}", "{}")
        ),
    ],
)
def test_from_yaml_names_the_place_in_the_file(path, text, expected):
    with pytest.raises(GraphError) as caught:
        read(path, text)
    assert str(caught.value).startswith(f"{path}: {expected}")
    path.write_bytes(b"tasks: \xff\xfe\xfa")
    with pytest.raises(GraphError, match="not YAML"):
        DAG.from_yaml(path)


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        (HEAD + "edges: [[collect, no]]", GraphError, "there is no task False"),
        ("tasks: {}\ntasks: {}\n", GraphError, r"dag\.yaml: .*'tasks' occurs twice.*line 2"),
        ("tasks:\n  a: {class: C}\n  a: {}\n", GraphError, r"yaml: .*'a' occurs twice.*line 3"),
        (tasks_of(__name__, "HEAD"), TypeError, "^task 'a': expected a Task .*, got "),
    ],
)
def test_names_and_edges_are_checked_as_those_of_the_constructor(path, text, error, says):
    with pytest.raises(error, match=says):
        read(path, text)
