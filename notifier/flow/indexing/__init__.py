"""Indexing of follows, preferences and activity into rows and bitmaps."""
