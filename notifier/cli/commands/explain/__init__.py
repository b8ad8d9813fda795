"""`notifier explain`."""
