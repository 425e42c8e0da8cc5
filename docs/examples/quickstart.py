"""The README's Quick Start: three tasks, their DAG, and the profile of one run.

    python quickstart.py [PROFILE.json]

Tasks and DAG are the standard's, word for word.
"""

# fmt: off
# ruff: noqa: D101, D102, N806, RET504

import sys

import numpy as np

from dagprofiler import DAG, Config, Task


class CollectData(Task):
    inputs = []
    outputs = ["data", "labels"]
    config_deps = ["N"]

    def compute(self, cfg=None):
        N = cfg.N
        return {
            "data": np.random.randn(N, 10),
            "labels": np.random.randint(0, 3, N),
        }

    @staticmethod
    def estimate_instructions(cfg):
        return cfg.N * 10


class ProcessData(Task):
    inputs = ["data"]
    outputs = ["features"]
    config_deps = ["N"]

    def compute(self, data, cfg=None):
        return {"features": data ** 2}

    @staticmethod
    def estimate_instructions(cfg):
        return cfg.N * 100


class Classify(Task):
    inputs = ["features", "labels"]
    outputs = ["predictions"]

    def compute(self, features, labels, cfg=None):
        return {"predictions": labels}  # Placeholder


def build_dag():
    """Return the Quick Start's DAG."""
    dag = DAG(
        tasks={
            "collect": CollectData(),
            "process": ProcessData(),
            "classify": Classify(),
        },
        edges=[
            ("collect", "process"),   # Auto-routes matching outputs->inputs
            ("collect", "classify"),
            ("process", "classify"),
        ],
        config=Config(N=10000),
    )
    return dag


def main():
    """Run the DAG, save its profile and print it."""
    path = sys.argv[1] if len(sys.argv) > 1 else "quickstart_profile.json"

    profile = build_dag().run(seed=42)
    profile.save(path)

    print(f"Total time: {profile.metrics.total_time_ms:.2f} ms")
    print(f"Node weights: {profile.metrics.node_weights}")
    print(f"Edge weights: {profile.metrics.edge_weights}")
    print()
    print(profile)
    print(f"\nprofile: {path}")


if __name__ == "__main__":
    main()
