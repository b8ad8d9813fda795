"""Makes clients of kafka-python. Each looks for a broker at once, and one that finds none leaves nothing behind."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from kafka import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.net.compat import KafkaNetClient

from notifier.adapters.kafka.access import Access

FOUND_WITHIN = 1_000
"""Milliseconds until a broker has answered at all; a request that one got and doesn't answer is waited for besides."""

Made = TypeVar("Made")


def made(kind: type[Made], **options: Any) -> Made:
    """Raises what the library raises."""
    nets: list[KafkaNetClient] = []

    def net(**config: Any) -> KafkaNetClient:
        nets.append(KafkaNetClient(**config))
        return nets[-1]

    try:
        return kind(**{"bootstrap_timeout_ms": FOUND_WITHIN, "kafka_client": net, **options})
    except BaseException:
        # The library leaves behind the thread and the sockets of a client that found no broker.
        for one in nets:
            with suppress(KafkaError):
                one.close()
            one._manager._net.stop()
        raise


@contextmanager
def administration(access: Access, **options: Any) -> Iterator[KafkaAdminClient]:
    """For a few calls. Raises what the library raises."""
    admin = made(KafkaAdminClient, **{**access.admin(), **options})
    try:
        yield admin
    finally:
        admin.close()
