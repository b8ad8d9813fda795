"""The command `notifier explain`."""
