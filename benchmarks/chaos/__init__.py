"""The cluster profile, broken on purpose under load."""
