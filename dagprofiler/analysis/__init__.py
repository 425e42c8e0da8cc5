"""Analyses of a profile's data: weights, critical path, makespan, comparison, summary."""
