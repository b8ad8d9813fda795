"""The ports' stores on Cassandra."""
