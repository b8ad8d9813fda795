"""The system clock keeps the store's precision, and nonces are unique."""

from datetime import UTC

from notifier.adapters.clock_and_nonces import SystemClock, UuidNonces
from notifier.codec.messagepack import from_ms, to_ms


def test_time_survives_storage() -> None:
    now = SystemClock().now()
    assert now.tzinfo is UTC
    assert from_ms(to_ms(now)) == now


def test_nonces_are_unique() -> None:
    nonces = UuidNonces()
    assert len({nonces.new() for _ in range(1_000)}) == 1_000
