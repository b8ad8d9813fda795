"""Which life of a topic this is: one that was deleted and made again counts its records anew."""

from dataclasses import replace

from notifier.adapters.kafka.config import Access, translated
from notifier.adapters.kafka.python_client_patches import administration
from notifier.ports.event_log import Logged

LETTERS = 8
"""Of the id that the brokers give a topic: enough to tell its few lives apart."""


def incarnation(access: Access, stream: str) -> str:
    """The same for everybody as long as the topic isn't deleted. Raises LogUnavailable."""
    with translated("The topic isn't known"), administration(access) as admin:
        [found] = admin.describe_topics([access.topic(stream)])
    return shortened(found["topic_id"])


def shortened(id: object) -> str:
    return str(id).replace("-", "")[:LETTERS]


def named(one: Logged, life: str) -> Logged:
    """With the topic's life in its partition's name: what heads have applied of one says nothing of the next."""
    stream, _, number = one.partition.rpartition("/")
    return replace(one, partition=f"{stream}@{life}/{number}")
