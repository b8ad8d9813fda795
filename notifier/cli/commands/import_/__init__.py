"""The command `notifier import`."""
