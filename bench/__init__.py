"""What `make bench` runs, and how it writes docs/benchmarks.md from what was measured."""
