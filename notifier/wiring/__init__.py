"""Builder functions that create the stages of a process from ports and settings."""
