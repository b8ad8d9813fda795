"""Processes that `notifier up` starts, watches and replaces."""
