"""Publish batches of tasks to RabbitMQ, and wait for publisher confirms."""

from collections.abc import Callable
from time import monotonic
from typing import Any

from kombu.exceptions import OperationalError

Producer = Any
"""Producer of kombu, which has no types."""


class ConfirmingPublisher:
    """Publisher with confirms on its own channel. The caller discards the publisher after an error.

    `send` waits once for a whole batch. Kombu's `confirm_publish` would wait for each task: 1 ms on an idle disk.
    """

    def __init__(self, producer: Producer) -> None:
        self._channel = producer.channel
        self._published_count = 0
        self._unconfirmed: set[int] = set()
        self._has_rejection = False
        self._channel.confirm_select()
        self._channel.events["basic_ack"].add(self._on_ack)
        self._channel.events["basic_nack"].add(self._on_nack)

    def send(self, count: int, publish: Callable[[], None], timeout: float) -> None:
        """Call `publish`, which sends `count` tasks, and return when a majority of the queue's nodes has them.

        Raises OperationalError if the broker rejects a task. Raises OSError if confirms are missing after `timeout`
        seconds.
        """
        # RabbitMQ numbers the messages of a channel from 1. Note the numbers before publishing: the first confirms
        # arrive while the last tasks are sent.
        self._unconfirmed.update(range(self._published_count + 1, self._published_count + count + 1))
        self._published_count += count
        publish()
        deadline = monotonic() + timeout
        while self._unconfirmed and not self._has_rejection:
            self._channel.connection.drain_events(timeout=max(0.001, deadline - monotonic()))
        if self._has_rejection:
            raise OperationalError("The broker rejected a task.")

    def _on_ack(self, tag: int, multiple: bool) -> None:
        self._unconfirmed -= {number for number in self._unconfirmed if number <= tag} if multiple else {tag}

    def _on_nack(self, tag: int, multiple: bool) -> None:
        self._has_rejection = True
