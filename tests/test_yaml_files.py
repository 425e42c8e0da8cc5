from __future__ import annotations

import sys

import pytest

from dagprofiler import DAG, Config, GraphError, MissingExtraError, Task


class Collect(Task):
    outputs = ["data", "labels"]

    def compute(self, cfg):
        return {"data": cfg.N, "labels": "x"}


class Classify(Task):
    inputs = ["data"]
    outputs = ["result"]

    def compute(self, **fields):
        fields.pop("cfg")
        return {"result": fields}


not_a_task = 5


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a DAG from YAML text, and the file's path."""

    def from_text(text):
        path.write_text(text, encoding="utf-8")
        return DAG.from_yaml(path)

    path = tmp_path / "dag.yaml"
    return from_text, path


HEAD = f"""\
config:
  N: 4
tasks:
  collect: {{module: {__name__}, class: Collect}}
  classify: {{module: {__name__}, class: Classify}}
"""


def refused(read, text):
    """Return the message that reading `text` gives, without the path before it."""
    from_text, path = read
    with pytest.raises(GraphError) as caught:
        from_text(text)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    return message[len(f"{path}: ") :]


def test_config_tasks_and_edges_are_read(read):
    dag = read[0](HEAD + "edges:\n  - [collect, classify]\n")
    assert dag.config == Config(N=4)
    assert list(dag.tasks) == ["collect", "classify"]
    assert isinstance(dag.tasks["collect"], Collect)
    assert dag.edge_fields == {("collect", "classify"): ["data"]}
    assert dag.run().final_outputs == {"result": {"data": 4}}


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
def test_an_edge_has_the_forms_of_the_constructor_and_that_of_a_mapping(
    read, edge, fields, received
):
    dag = read[0](f"{HEAD}edges: [{edge}]\n")
    assert dag.edge_fields == {("collect", "classify"): fields}
    assert dag.run().final_outputs == {"result": received}


@pytest.mark.parametrize("text", ["", "{}", "config:\ntasks:\nedges:\n", "tasks: {}\nedges: []"])
def test_what_is_left_out_is_empty(read, text):
    dag = read[0](text)
    assert dag.tasks == {}
    assert dag.config == Config()
    assert dag.execution_order == []


def test_the_path_may_be_text(read, tmp_path):
    read[0](HEAD)
    assert DAG.from_yaml(str(tmp_path / "dag.yaml")).config.N == 4


def test_nested_config_values_stay_plain_data(read):
    dag = read[0]("config: {cells: [1, 2], radio: {band: n78}}")
    assert dag.config.cells == [1, 2]
    assert dag.config["radio"] == {"band": "n78"}


def test_a_subclass_reads_itself(read):
    class Own(DAG):
        pass

    read[0](HEAD)
    assert type(Own.from_yaml(read[1])) is Own


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        DAG.from_yaml(tmp_path / "nowhere.yaml")


def test_a_missing_pyyaml_is_an_error_that_names_the_extra(read, monkeypatch):
    read[1].write_text(HEAD)
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(MissingExtraError) as caught:
        DAG.from_yaml(read[1])
    assert caught.value.extra == "yaml"
    assert str(caught.value) == (
        'DAG.from_yaml needs a package that is not installed: pip install "dagprofiler[yaml]"'
    )


@pytest.mark.parametrize("text", ["tasks: [", "a: b: c", "\t- x", "!!python/object:os.system {}"])
def test_what_is_no_plain_yaml_is_refused(read, text):
    assert refused(read, text).startswith("not YAML: ")


def test_a_file_that_is_no_text_is_refused(read):
    read[1].write_bytes(b"tasks: \xff\xfe\xfa")
    with pytest.raises(GraphError, match="not YAML"):
        DAG.from_yaml(read[1])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5", "expected a mapping, got 5"),
        ("[1]", "expected a mapping, got [1]"),
        ("config: 5", "config: expected a mapping, got 5"),
        ("tasks: [a]", "tasks: expected a mapping, got ['a']"),
        ("edges: {a: b}", "edges: expected a list, got {'a': 'b'}"),
        ("edges: a", "edges: expected a list, got 'a'"),
        ("config: []", "config: expected a mapping, got []"),
    ],
)
def test_a_section_of_another_kind_is_refused(read, text, expected):
    assert refused(read, text) == expected


def test_config_names_must_be_strings(read):
    assert refused(read, "config: {1: 2}").startswith("config: ")


@pytest.mark.parametrize("spec", ["5", "a.B", "{module: os}", "{class: A}", "[os, path]", ""])
def test_a_task_needs_module_and_class(read, spec):
    message = refused(read, f"tasks: {{a: {spec}}}")
    assert message.startswith("task 'a': expected 'module' and 'class', got ")


def test_a_module_that_is_not_there_is_named(read):
    message = refused(read, "tasks: {a: {module: no_such_module_here, class: A}}")
    assert message == "task 'a': No module named 'no_such_module_here'"


def test_a_class_that_is_not_there_is_named(read):
    message = refused(read, f"tasks: {{a: {{module: {__name__}, class: Nope}}}}")
    assert message == f"task 'a': module {__name__!r} has no attribute 'Nope'"


@pytest.mark.parametrize(
    "spec",
    [
        "{module: '', class: A}",
        "{module: 5, class: A}",
        "{module: .relative, class: A}",
        "{module: , class: A}",
        "{module: os, class: 5}",
        "{module: os, class: }",
    ],
)
def test_module_and_class_must_be_names(read, spec):
    assert refused(read, f"tasks: {{a: {spec}}}").startswith("task 'a': ")


@pytest.mark.parametrize("name", ["not_a_task", "pytest"])
def test_what_is_imported_must_be_a_task_class(read, name):
    with pytest.raises(TypeError, match=r"^task 'a': expected a Task .*, got "):
        read[0](f"tasks: {{a: {{module: {__name__}, class: {name}}}}}")


@pytest.mark.parametrize("edge", ["{source: a}", "{target: a}", "{data: []}", "{}"])
def test_an_edge_that_is_a_mapping_needs_both_ends(read, edge):
    message = refused(read, f"{HEAD}edges: [[collect, classify], {edge}]")
    assert message.startswith("edge 2: expected 'source' and 'target', got {")


@pytest.mark.parametrize(
    ("edge", "expected"),
    [
        ("[collect, clasify]", "there is no task 'clasify'; did you mean 'classify'?"),
        ("[collect, classify, [label]]", "field 'label' is not an output of 'collect'"),
        ("[collect, collect]", "a task cannot feed itself"),
        ("collect", "expected (source, target) or (source, target, fields)"),
        ("{source: collect, target: classify, data: data}", "expected a list of fields"),
        ("[collect, no]", "there is no task False"),
    ],
)
def test_edges_are_checked_as_those_of_the_constructor(read, edge, expected):
    with pytest.raises(GraphError) as caught:
        read[0](f"{HEAD}edges: [{edge}]")
    assert expected in str(caught.value)


def test_task_names_are_checked_as_those_of_the_constructor(read):
    with pytest.raises(GraphError, match=r"^task name 1: "):
        read[0](f"tasks: {{1: {{module: {__name__}, class: Collect}}}}")


@pytest.mark.parametrize(
    "text",
    ["tasks: {}\ntasks: {}\n", "tasks:\n  a: {module: m, class: C}\n  a: {module: m, class: C}\n"],
)
def test_a_key_that_stands_twice_is_refused(read, text):
    from_text, _ = read
    with pytest.raises(GraphError, match=r"dag\.yaml: .*'(tasks|a)' occurs twice.*line [23]"):
        from_text(text)


def test_an_alias_may_stand_for_what_it_is_in(read):
    from_text, _ = read
    with pytest.raises(GraphError):
        from_text("tasks: &a\n  - *a\n")
