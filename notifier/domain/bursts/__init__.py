"""Mentions, and the bursts into which they are collapsed."""
