"""Kafka: the event log past one machine, by either of two client libraries."""

from notifier.adapters.kafka import python_client_patches as answers
from notifier.adapters.kafka.auth import knock, require
from notifier.adapters.kafka.client import CONFLUENT, KAFKA_PYTHON
from notifier.adapters.kafka.config import Access, security
from notifier.adapters.kafka.health import Brokers, Standing, look
from notifier.adapters.kafka.log import KafkaLog
from notifier.adapters.kafka.topics import migrate, pending

answers.keep()  # before any thread reads one

__all__ = [
    "CONFLUENT",
    "KAFKA_PYTHON",
    "Access",
    "Brokers",
    "KafkaLog",
    "Standing",
    "knock",
    "look",
    "migrate",
    "pending",
    "require",
    "security",
]
