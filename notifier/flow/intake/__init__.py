"""Intake of events into the log streams: gateway, router and moderation."""
