"""Indexing of account flags and directory entries."""
