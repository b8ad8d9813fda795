"""The Cassandra driver: sessions, retries, time-outs and prepared statements."""
