"""Bulk writes of inbox rows."""
