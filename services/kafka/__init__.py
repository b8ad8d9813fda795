"""Kafka in KRaft mode, one broker or three, on the loopback."""

from notifier.devkit.engines.kafka import broker, brokers

__all__ = ["broker", "brokers"]
