"""Kafka: the event log past one machine, by either of two client libraries."""

from notifier.adapters.kafka.access import Access, security
from notifier.adapters.kafka.client import CONFLUENT, KAFKA_PYTHON
from notifier.adapters.kafka.log import KafkaLog
from notifier.adapters.kafka.topics import migrate, pending

__all__ = ["CONFLUENT", "KAFKA_PYTHON", "Access", "KafkaLog", "migrate", "pending", "security"]
