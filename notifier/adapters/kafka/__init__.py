"""Kafka: the event log past one machine."""

from notifier.adapters.kafka.access import Access, security
from notifier.adapters.kafka.log import KafkaLog
from notifier.adapters.kafka.topics import migrate, pending

__all__ = ["Access", "KafkaLog", "migrate", "pending", "security"]
