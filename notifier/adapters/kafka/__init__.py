"""Kafka: the event log past one machine."""

from notifier.adapters.kafka import python_client_patches as answers
from notifier.adapters.kafka.auth import knock, require
from notifier.adapters.kafka.config import Access, security
from notifier.adapters.kafka.health import Brokers, Standing, look
from notifier.adapters.kafka.log import KafkaLog
from notifier.adapters.kafka.topics import migrate, pending

answers.keep()  # before any thread reads one

__all__ = [
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
