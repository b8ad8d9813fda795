"""Adapters of the ports: one folder per technology, chosen by notifier.profiles."""
