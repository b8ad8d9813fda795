"""Implementations of the store ports on SQLite."""
