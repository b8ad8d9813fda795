"""Inbox rows written in bulk."""
