"""Benchmarks of alerts: the cost of sending them, and their promises."""
