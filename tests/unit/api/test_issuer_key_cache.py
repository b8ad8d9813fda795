"""Issuer keys: one fetch for all callers, and no wait for known keys."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from notifier.api.auth.issuer_keys import MAX_KEY_AGE, MIN_FETCH_INTERVAL, FetchedKeys
from notifier.domain.errors import IssuerUnavailable
from tests.support.token_issuer import FakeIssuer


@dataclass(slots=True)
class SlowIssuer:
    """Issuer that answers when the test allows it."""

    issuer: FakeIssuer = field(default_factory=FakeIssuer)
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    time: float = 0.0
    failures: int = 0

    def keyring(self) -> FetchedKeys:
        return FetchedKeys(self.fetch, self.fail, lambda: self.time)

    async def fetch(self) -> bytes:
        await self.may_answer.wait()
        return await self.issuer.fetch()

    def fail(self) -> None:
        self.failures += 1


def test_concurrent_callers_share_one_fetch() -> None:
    async def play(slow_issuer: SlowIssuer) -> None:
        keyring = slow_issuer.keyring()
        waiting = [asyncio.create_task(keyring.key(kid)) for kid in ("a", "b", "c") * 20]
        await asyncio.sleep(0)
        slow_issuer.may_answer.set()
        keys = await asyncio.gather(*waiting)
        assert [key and key.algorithm for key in keys[:3]] == ["EdDSA", "RS256", None]
        assert slow_issuer.issuer.fetch_count == 1

    run_with_issuer(play)


def test_cancelled_caller_does_not_cancel_the_fetch_of_others() -> None:
    async def play(slow_issuer: SlowIssuer) -> None:
        keyring = slow_issuer.keyring()
        cancelled, waiting = (asyncio.create_task(keyring.key("a")) for _ in range(2))
        await asyncio.sleep(0)
        cancelled.cancel()
        slow_issuer.may_answer.set()
        assert await waiting

    run_with_issuer(play)


def test_known_key_waits_at_most_once_while_the_issuer_hangs() -> None:
    async def play(slow_issuer: SlowIssuer) -> None:
        keyring = slow_issuer.keyring()
        slow_issuer.may_answer.set()
        assert await keyring.key("a")
        slow_issuer.issuer.error = "It hangs."
        slow_issuer.time += MAX_KEY_AGE.total_seconds() + 1
        assert await keyring.key("a")
        slow_issuer.may_answer.clear()
        slow_issuer.time += MIN_FETCH_INTERVAL.total_seconds()
        assert await asyncio.wait_for(keyring.key("a"), 10)
        assert (keyring.refresh_task is not None, slow_issuer.failures) == (True, 1)
        unknown = asyncio.create_task(keyring.key("c"))
        slow_issuer.may_answer.set()
        with pytest.raises(IssuerUnavailable):
            await unknown
        assert (slow_issuer.failures, keyring.failure) == (2, "It hangs.")

    run_with_issuer(play)


def test_answer_without_keys_keeps_the_known_keys() -> None:
    async def play(slow_issuer: SlowIssuer) -> None:
        keyring = slow_issuer.keyring()
        slow_issuer.may_answer.set()
        assert await keyring.key("a")
        slow_issuer.issuer.keys = {}
        slow_issuer.time += MAX_KEY_AGE.total_seconds() + 1
        assert await keyring.key("a")
        assert "no key for EdDSA" in keyring.failure

    run_with_issuer(play)


def run_with_issuer(play: Callable[[SlowIssuer], Awaitable[None]]) -> None:
    async def run() -> None:
        await play(SlowIssuer())

    asyncio.run(run())
