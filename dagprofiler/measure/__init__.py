"""Measuring one task with clocks and meters, and describing the machine."""
