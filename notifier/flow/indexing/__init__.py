"""Follower and activity bitmaps, kept up to date from the streams."""
