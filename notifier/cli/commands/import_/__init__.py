"""`notifier import`."""
