"""Benchmarks of opening the inbox."""
