"""`docs/benchmarks.md` and its pictures, made from stored results."""
