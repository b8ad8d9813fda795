"""The command `notifier doctor`."""
