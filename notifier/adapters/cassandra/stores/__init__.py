"""Implementations of the store ports on Cassandra."""
