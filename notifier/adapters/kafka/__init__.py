"""Kafka event log of the cluster profile, built on kafka-python."""

from notifier.adapters.kafka import workarounds
from notifier.adapters.kafka.connection_options_and_errors import Access, admin_client, security, translated
from notifier.adapters.kafka.health import ClusterStatus, TopicStatus, check_access, cluster_status, require_access
from notifier.adapters.kafka.log import KafkaLog
from notifier.adapters.kafka.topics import load_topics, migrate, pending_migration_steps

workarounds.pin_response_classes()  # before any thread decodes a response

__all__ = [
    "Access",
    "ClusterStatus",
    "KafkaLog",
    "TopicStatus",
    "admin_client",
    "check_access",
    "cluster_status",
    "load_topics",
    "migrate",
    "pending_migration_steps",
    "require_access",
    "security",
    "translated",
]
