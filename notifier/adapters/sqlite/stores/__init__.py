"""The ports' stores on SQLite."""
