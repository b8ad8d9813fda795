"""Kafka in KRaft mode, one broker or three, on the loopback."""

from services.kafka.broker import broker, brokers

__all__ = ["broker", "brokers"]
