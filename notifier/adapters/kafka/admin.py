"""The brokers' administration, as a client that lives for a few calls."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.net.compat import KafkaNetClient

from notifier.adapters.kafka.access import Access


@contextmanager
def administration(access: Access, **options: Any) -> Iterator[KafkaAdminClient]:
    """Raises what the library raises."""
    nets: list[KafkaNetClient] = []

    def net(**config: Any) -> KafkaNetClient:
        nets.append(KafkaNetClient(**config))
        return nets[-1]

    found = {**access.admin(), "kafka_client": net, **options}
    try:
        admin = KafkaAdminClient(**found)
    except KafkaError:
        # The library leaves behind the thread of a client that found no broker.
        for one in nets:
            with suppress(KafkaError):
                one.close()
            one._manager._net.stop()
        raise
    try:
        yield admin
    finally:
        admin.close()
