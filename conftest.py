"""For examples in docstrings, which pytest runs from here: they leave no trace behind."""

from __future__ import annotations

import os
from typing import Any


def pytest_configure(config: Any) -> None:
    """Switch tracing off; examples collect what they show."""
    if config.option.doctestmodules:
        os.environ.setdefault("PERFFLOW_OPTIONS", "log-enable=False")
