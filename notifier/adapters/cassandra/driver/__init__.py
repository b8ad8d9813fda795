"""The Cassandra driver: sessions, retries, deadlines and prepared statements."""
