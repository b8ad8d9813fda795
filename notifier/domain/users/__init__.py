"""Settings and reading state of a single user, and what the user may see."""
