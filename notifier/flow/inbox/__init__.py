"""Inbox pages and badges, from verified caches or from the store."""
