"""Measure the product's speed. Not part of the product: neither notifier nor workers import it."""
