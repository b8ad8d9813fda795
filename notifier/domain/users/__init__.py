"""Preferences and reading state of a single user, and rules of visibility."""
