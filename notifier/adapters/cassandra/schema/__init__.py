"""The keyspace: migrations, partitions, times to live, health."""
