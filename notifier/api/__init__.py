"""HTTP API: event intake, inbox, preferences, devices and operations."""
