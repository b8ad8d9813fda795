"""Benchmarks of starting `notifier up`, by the way in which it starts its roles."""
