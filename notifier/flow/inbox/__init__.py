"""Serve inbox pages and badges from verified caches, falling back to the store."""
