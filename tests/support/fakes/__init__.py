"""Every port in memory, as plain dicts and lists: for one thread, and under the same contracts as the real ones."""
