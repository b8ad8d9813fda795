"""The real engines, for tests and trials on one machine: Kafka and Cassandra from their jars, each a child process."""
