"""One task between clocks and meters, and the machine that it runs on."""
