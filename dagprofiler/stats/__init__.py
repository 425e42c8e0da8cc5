"""What samples say: medians, intervals and rank tests."""
