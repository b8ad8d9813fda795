"""Sender for Apple's push service (APNs)."""
