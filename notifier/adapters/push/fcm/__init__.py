"""Google's push service."""
