"""Indexers that keep follower and activity bitmaps up to date from the streams."""
