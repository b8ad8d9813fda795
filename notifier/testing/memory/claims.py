"""Claims on slices, in memory."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from notifier.domain.delivery.ledger import Claim
from notifier.domain.delivery.slice import Slice
from notifier.domain.ids import BurstKey


class MemoryClaims:
    def __init__(self) -> None:
        self._claims: dict[BurstKey, dict[Slice, Claim]] = {}

    def claim(self, piece: Slice, owner: str, now: datetime, until: datetime) -> Claim | None:
        claims = self._claims.setdefault(piece.burst, {})
        last = claims.get(piece)
        if last is not None and now < last.until:
            return None
        attempt = last.attempt + 1 if last else 1
        reached = last.reached if last else 0
        mine = Claim(slice=piece, attempt=attempt, owner=owner, claimed_at=now, until=until, reached=reached)
        claims[piece] = mine
        return mine

    def renew(self, claim: Claim, until: datetime) -> Claim | None:
        return self._until(claim, until)

    def release(self, claim: Claim, now: datetime) -> None:
        self._until(claim, now)

    def of(self, burst: BurstKey) -> Iterator[Claim]:
        """What the ledger reads of them."""
        return iter(self._claims.get(burst, {}).values())

    def _until(self, claim: Claim, until: datetime) -> Claim | None:
        claims = self._claims.get(claim.slice.burst, {})
        stored = claims.get(claim.slice)
        if stored is None or (stored.attempt, stored.owner) != (claim.attempt, claim.owner):
            return None
        claims[claim.slice] = replace(stored, until=until, reached=claim.reached)
        return claims[claim.slice]
