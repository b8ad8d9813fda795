"""Cassandra, Kafka and Valkey as processes of this machine."""
