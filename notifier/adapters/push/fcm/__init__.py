"""Sender for Google's push service (FCM)."""
