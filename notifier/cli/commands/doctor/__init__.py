"""`notifier doctor`."""
