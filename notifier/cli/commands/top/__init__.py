"""`notifier top`."""
