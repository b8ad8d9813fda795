"""Readers of import files."""
