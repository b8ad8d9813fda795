"""The Cassandra schema: migrations, partitioning, TTLs and health."""
