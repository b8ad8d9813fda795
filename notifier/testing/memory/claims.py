"""Claims on slices, in memory."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from notifier.domain.ledger import Claim
from notifier.domain.slice import Slice
from notifier.domain.subject import BurstKey


class MemoryClaims:
    def __init__(self) -> None:
        self._claims: dict[Slice, Claim] = {}

    def claim(self, piece: Slice, owner: str, now: datetime, until: datetime) -> Claim | None:
        last = self._claims.get(piece)
        if last is not None and now < last.until:
            return None
        attempt = last.attempt + 1 if last else 1
        reached = last.reached if last else 0
        mine = Claim(slice=piece, attempt=attempt, owner=owner, claimed_at=now, until=until, reached=reached)
        self._claims[piece] = mine
        return mine

    def renew(self, claim: Claim, until: datetime) -> Claim | None:
        return self._until(claim, until)

    def release(self, claim: Claim, now: datetime) -> None:
        self._until(claim, now)

    def of(self, burst: BurstKey) -> Iterator[Claim]:
        """What the ledger reads of them."""
        return (claim for piece, claim in self._claims.items() if piece.burst == burst)

    def _until(self, claim: Claim, until: datetime) -> Claim | None:
        stored = self._claims.get(claim.slice)
        if stored is None or (stored.attempt, stored.owner) != (claim.attempt, claim.owner):
            return None
        self._claims[claim.slice] = replace(stored, until=until, reached=claim.reached)
        return self._claims[claim.slice]
