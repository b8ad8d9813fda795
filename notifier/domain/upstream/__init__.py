"""Validated events from the tweet service and other upstream services."""
