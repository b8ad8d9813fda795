"""Bulk imports of accounts, followers and preferences."""
