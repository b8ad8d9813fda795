"""Protocols of stores, logs, caches, queues and providers. Each profile has adapters that implement them."""
