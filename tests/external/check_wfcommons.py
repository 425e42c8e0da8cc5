"""What wfcommons and SAGA make of WfFormat files; runs in their environment, not in ours.

Usage: python check_wfcommons.py SCHEMA FILE...

Prints a JSON object, file to what was read of it: `nodes` with their runtimes in seconds,
`edges` with their sizes in bytes, `warnings`. Files of 1.4 go to SAGA, others to wfcommons.
"""

import json
import logging
import sys
from pathlib import Path


def by_wfcommons(path, schema):
    from wfcommons.wfinstances import Instance
    from wfcommons.wfinstances.schema import SchemaValidator

    validator = SchemaValidator(schema)
    validator.validate_instance(json.loads(path.read_text(encoding="utf-8")))
    workflow = Instance(path, schema_file=schema).workflow
    tasks = {name: data["task"] for name, data in workflow.nodes(data=True)}
    outputs = {name: {f.file_id for f in task.output_files} for name, task in tasks.items()}
    return {
        "nodes": {name: task.runtime for name, task in tasks.items()},
        "edges": [
            [a, b, sum(f.size for f in tasks[b].input_files if f.file_id in outputs[a])]
            for a, b in workflow.edges
        ],
        "machines": {name: [m.name for m in task.machines] for name, task in tasks.items()},
        "warnings": validator.warnings,
    }


def by_saga(path):
    from saga.schedulers.data.wfcommons import trace_to_digraph

    graph = trace_to_digraph(path, "ours")
    return {
        "nodes": {name: data["weight"] for name, data in graph.nodes(data=True)},
        "edges": [[a, b, data["weight"]] for a, b, data in graph.edges(data=True)],
        "warnings": [],
    }


def main():
    logging.disable(logging.CRITICAL)
    schema, *files = map(Path, sys.argv[1:])
    result = {}
    for path in files:
        version = json.loads(path.read_text(encoding="utf-8"))["schemaVersion"]
        result[path.name] = by_saga(path) if version == "1.4" else by_wfcommons(path, schema)
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    main()
