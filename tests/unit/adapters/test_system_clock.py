"""The machine's time and chance, as precise as the store keeps them."""

from datetime import UTC

from notifier.adapters.system_clock import SystemClock, UuidNonces
from notifier.codec.storage import from_ms, to_ms


def test_a_moment_survives_the_store() -> None:
    now = SystemClock().now()
    assert now.tzinfo is UTC
    assert from_ms(to_ms(now)) == now


def test_no_nonce_comes_twice() -> None:
    nonces = UuidNonces()
    assert len({nonces.new() for _ in range(1_000)}) == 1_000
