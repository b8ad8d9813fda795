"""What it costs to know whom a burst is for."""
