"""The keyring: the issuer's public keys, fetched when they are needed and kept while its address doesn't answer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import Protocol

from notifier.api.jwks import PublicKey, public_keys
from notifier.domain.errors import IssuerUnavailable

LOGGER = logging.getLogger("notifier.api")

FRESH = timedelta(minutes=10)
"""What the issuer takes away counts no longer than that, while its address answers."""
AWAY = timedelta(hours=1)
"""So much longer while it doesn't. Tokens last for minutes, so later none is left that a key of then could have signed
in good faith; and whoever can keep us from the issuer keeps alive a stolen key for so long at most."""
AGAIN = timedelta(seconds=10)
"""Between two fetches: anybody can write a `kid` that nobody knows, a thousand times a second."""


class Keyring(Protocol):
    async def key(self, kid: str) -> PublicKey | None:
        """None for a key that isn't the issuer's. Raises IssuerUnavailable when that can't be known."""
        ...


@dataclass(frozen=True, slots=True)
class Held:
    """The one key of a file: it needs no name, so that whatever a token calls it is right."""

    only: PublicKey

    async def key(self, _: str) -> PublicKey | None:
        return self.only


@dataclass(slots=True)
class Fetched:
    """For one loop. Who asks waits for a fetch only when there is no answer without it; all wait for the same."""

    fetch: Callable[[], Awaitable[bytes]]
    """Bounded in time and size. Raises IssuerUnavailable."""
    failed: Callable[[], object] = lambda: None
    """Told of every fetch that brought no keys."""
    now: Callable[[], float] = monotonic
    keys: Mapping[str, PublicKey] = field(default_factory=dict)
    fetched_at: float = float("-inf")
    tried_at: float = float("-inf")
    trouble: str = ""
    """Why the last fetch brought no keys."""
    running: "asyncio.Task[None] | None" = None

    async def key(self, kid: str) -> PublicKey | None:
        if kid not in self.keys or self._older_than(FRESH):
            await self._refresh(kid)
        if self._older_than(FRESH + AWAY) or (self.trouble and kid not in self.keys):
            # Without the cause, which may name hosts that are nobody's business; the log has it.
            raise IssuerUnavailable
        return self.keys.get(kid)

    async def _refresh(self, kid: str) -> None:
        if self.running is None:
            if self.now() - self.tried_at < AGAIN.total_seconds():
                return
            self.tried_at = self.now()
            self.running = asyncio.create_task(self._fetch())
        # While the address is in trouble whoever brings a known key is let in with it at once.
        if not self.trouble or kid not in self.keys or self._older_than(FRESH + AWAY):
            await asyncio.shield(self.running)

    async def _fetch(self) -> None:
        try:
            self.keys = public_keys(await self.fetch())
            self.fetched_at = self.now()
            self._note("")
        except (IssuerUnavailable, ValueError) as error:
            # Fails open, for as long as the last keys count. An answer without a key is a mistake, and no word of the
            # issuer's that there should be none.
            self._note(error.detail if isinstance(error, IssuerUnavailable) else f"Of what it answers: {error}.")
            self.failed()
        finally:
            self.running = None

    def _note(self, trouble: str) -> None:
        """Once when it begins, and once when it ends."""
        if trouble and not self.trouble:
            LOGGER.warning("The issuer's keys can't be had; the last ones count for a while. %s", trouble)
        elif self.trouble and not trouble:
            LOGGER.info("The issuer's keys can be had again")
        self.trouble = trouble

    def _older_than(self, age: timedelta) -> bool:
        return self.now() - self.fetched_at > age.total_seconds()
