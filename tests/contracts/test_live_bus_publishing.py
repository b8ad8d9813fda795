"""Publishing on the live bus: one message per burst, in order, on every backend."""

from collections.abc import Callable, Iterator
from typing import cast

import pytest
from redis.client import PubSub

from notifier.adapters.redis.connect import connect
from notifier.adapters.redis.live_bus import BURSTS_CHANNEL, RedisLiveBus
from notifier.codec import unpack
from notifier.domain.bursts.burst import Burst
from notifier.domain.errors import CacheUnavailable
from notifier.ports.live_bus import LiveBus
from tests.contracts.pull_index_backends import burst
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.live_bus import MemoryLiveBus

__all__ = ["valkey", "valkey_server"]

Backend = tuple[LiveBus, Callable[[int], list[Burst]]]
"""The port, and a function that returns the given number of received messages."""


@pytest.fixture(params=["memory", "valkey", "valkeys"])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    if request.param == "memory":
        bus = MemoryLiveBus()
        yield bus, lambda n: bus.published
        return
    client = cast(Valkey, request.getfixturevalue(request.param)).client
    pubsub: Callable[[], PubSub] = client.pubsub
    with pubsub() as listener:
        listener.subscribe(BURSTS_CHANNEL)
        assert listener.get_message(timeout=5)
        yield RedisLiveBus(client), lambda n: [_receive(listener) for _ in range(n)]


def _receive(listener: PubSub) -> Burst:
    message = listener.get_message(timeout=5)
    assert message
    return unpack(Burst, message["data"])


def test_each_burst_is_one_message_in_order(backend: Backend) -> None:
    bus, received = backend
    bus.publish([burst(1), burst(2)])
    bus.publish([burst(2)])
    assert received(3) == [burst(1), burst(2), burst(2)]


def test_publishing_no_burst_sends_no_message(backend: Backend) -> None:
    bus, received = backend
    bus.publish([])
    bus.publish([burst(1)])
    assert received(1) == [burst(1)]


def test_publish_fails_without_server() -> None:
    with connect("redis://127.0.0.1:1/0") as client, pytest.raises(CacheUnavailable):
        RedisLiveBus(client).publish([burst(1)])
