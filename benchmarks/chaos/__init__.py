"""Fault tests: the cluster profile under load, with engines and processes that fail."""
