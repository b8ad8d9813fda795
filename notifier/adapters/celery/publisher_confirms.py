"""How tasks come to RabbitMQ for certain: published together, and confirmed before the call returns."""

from collections.abc import Callable
from time import monotonic
from typing import Any

from kombu.exceptions import OperationalError

Producer = Any
"""Kombu's, which has no types."""


class Confirmed:
    """On a channel of its own, which is given up with the first error.

    One wait for a whole batch: with kombu's `confirm_publish` it is one for each task, 1 ms on an idle disk.
    """

    def __init__(self, producer: Producer) -> None:
        self._channel = producer.channel
        self._published = 0
        self._waiting: set[int] = set()
        self._refused = False
        self._channel.confirm_select()
        self._channel.events["basic_ack"].add(self._on_ack)
        self._channel.events["basic_nack"].add(self._on_nack)

    def send(self, count: int, publish: Callable[[], None], within: float) -> None:
        """Returns when most of the queue's nodes have the `count` tasks that `publish` sends.

        Raises OperationalError when one is refused, and OSError when that takes longer than `within` seconds.
        """
        # RabbitMQ counts what a channel publishes from 1. Noted first: the first answers come while the last are sent.
        self._waiting.update(range(self._published + 1, self._published + count + 1))
        self._published += count
        publish()
        deadline = monotonic() + within
        while self._waiting and not self._refused:
            self._channel.connection.drain_events(timeout=max(0.001, deadline - monotonic()))
        if self._refused:
            raise OperationalError("The broker refused a task.")

    def _on_ack(self, tag: int, multiple: bool) -> None:
        self._waiting -= {each for each in self._waiting if each <= tag} if multiple else {tag}

    def _on_nack(self, tag: int, multiple: bool) -> None:
        self._refused = True
