"""Kafka: the event log past one machine."""

from notifier.adapters.kafka.access import Access
from notifier.adapters.kafka.log import KafkaLog

__all__ = ["Access", "KafkaLog"]
