"""Cassandra, Kafka and Valkey as local processes, for development and tests."""
