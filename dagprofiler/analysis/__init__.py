"""Analyses of a profile's data: weights, comparison, critical path, communication."""
