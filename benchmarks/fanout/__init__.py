"""How fast a burst reaches its audience."""
