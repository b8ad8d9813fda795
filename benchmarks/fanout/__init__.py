"""Benchmarks of the fan-out, from a mention to the rows of its audience."""
