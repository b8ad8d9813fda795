"""Indexers that keep bitmaps of followers, preferences and activity up to date from the streams."""
