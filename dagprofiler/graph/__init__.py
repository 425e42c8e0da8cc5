"""Graphs of names: edges, order, and who feeds whom. Nothing here knows what a task is."""
