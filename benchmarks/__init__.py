"""Measure what is promised about speed. Not part of the product: nothing in `notifier` or `workers` imports it."""
