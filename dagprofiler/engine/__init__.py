"""The rounds of one run: options, the ready loop, the log and what is made of it, hooks."""
