"""Benchmarks of Kafka's clients."""
