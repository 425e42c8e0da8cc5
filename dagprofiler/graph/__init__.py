"""Graphs of names: edges, order and wiring. This package does not import tasks."""
