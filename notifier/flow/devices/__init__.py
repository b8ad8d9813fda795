"""Registration and indexing of devices."""
