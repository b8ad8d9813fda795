"""`docs/benchmarks.md` and its pictures, generated from stored results."""
