"""Rows, pages, mentions and large bursts on Cassandra."""
