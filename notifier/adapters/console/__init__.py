"""Alerts as lines of text: what runs where no push provider is configured."""

from notifier.adapters.console.sender import ConsoleSender

__all__ = ["ConsoleSender"]
