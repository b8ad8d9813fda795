"""Mentions, and the bursts that they are collapsed into."""
