"""The command `notifier top`."""
