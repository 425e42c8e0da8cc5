"""Statistics of samples: medians, intervals and rank tests."""
