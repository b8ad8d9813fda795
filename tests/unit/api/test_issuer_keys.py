"""The keyring fetches once for all who wait, and lets nobody wait who needn't."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from notifier.api.auth.issuer_keys import FRESH_FOR, RETRY_AFTER, FetchedKeys
from notifier.domain.errors import IssuerUnavailable
from tests.support.token_issuer import FakeIssuer


@dataclass(slots=True)
class Slow:
    """An issuer that answers when it is told to."""

    issuer: FakeIssuer = field(default_factory=FakeIssuer)
    may: asyncio.Event = field(default_factory=asyncio.Event)
    time: float = 0.0
    failures: int = 0

    def keyring(self) -> FetchedKeys:
        return FetchedKeys(self.fetch, self.fail, lambda: self.time)

    async def fetch(self) -> bytes:
        await self.may.wait()
        return await self.issuer.fetch()

    def fail(self) -> None:
        self.failures += 1


def test_all_who_come_while_it_is_fetched_wait_for_the_same_fetch() -> None:
    async def play(slow: Slow) -> None:
        keyring = slow.keyring()
        waiting = [asyncio.create_task(keyring.key(kid)) for kid in ("a", "b", "c") * 20]
        await asyncio.sleep(0)
        slow.may.set()
        found = await asyncio.gather(*waiting)
        assert [key and key.algorithm for key in found[:3]] == ["EdDSA", "RS256", None]
        assert slow.issuer.asked == 1

    played(play)


def test_who_goes_while_it_is_fetched_takes_it_from_nobody() -> None:
    async def play(slow: Slow) -> None:
        keyring = slow.keyring()
        gone, waits = (asyncio.create_task(keyring.key("a")) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        slow.may.set()
        assert await waits

    played(play)


def test_while_the_issuer_hangs_a_known_key_waits_at_most_once() -> None:
    async def play(slow: Slow) -> None:
        keyring = slow.keyring()
        slow.may.set()
        assert await keyring.key("a")
        slow.issuer.broken = "It hangs."
        slow.time += FRESH_FOR.total_seconds() + 1
        assert await keyring.key("a")
        slow.may.clear()
        slow.time += RETRY_AFTER.total_seconds()
        assert await asyncio.wait_for(keyring.key("a"), 1)
        assert (keyring.refresh_task is not None, slow.failures) == (True, 1)
        unknown = asyncio.create_task(keyring.key("c"))
        slow.may.set()
        with pytest.raises(IssuerUnavailable):
            await unknown
        assert (slow.failures, keyring.failure) == (2, "It hangs.")

    played(play)


def test_an_answer_without_a_key_takes_none_away() -> None:
    async def play(slow: Slow) -> None:
        keyring = slow.keyring()
        slow.may.set()
        assert await keyring.key("a")
        slow.issuer.keys = {}
        slow.time += FRESH_FOR.total_seconds() + 1
        assert await keyring.key("a")
        assert "no key for EdDSA" in keyring.failure

    played(play)


def played(play: Callable[[Slow], Awaitable[None]]) -> None:
    async def run() -> None:
        await play(Slow())

    asyncio.run(run())
