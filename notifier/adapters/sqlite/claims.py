"""Claims in core.db: each change is one conditional statement, so of two workers one gets the slice."""

from dataclasses import replace
from datetime import datetime

from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.statements import statement
from notifier.codec.moments import to_ms
from notifier.domain.delivery.ledger import Claim
from notifier.domain.delivery.slice import Slice

_CLAIM = statement("claim")
_EXTEND = statement("extend_claim")


class SqliteClaims:
    def __init__(self, db: Database) -> None:
        self._db = db

    def claim(self, piece: Slice, owner: str, now: datetime, until: datetime) -> Claim | None:
        row = (str(piece.burst.subject), piece.burst.seq, str(piece), owner, to_ms(now), to_ms(until))
        with self._db.write() as c:
            taken = c.execute(_CLAIM, row).fetchall()
        if not taken:
            return None
        attempt, reached = taken[0]
        return Claim(slice=piece, attempt=attempt, owner=owner, claimed_at=now, until=until, reached=reached)

    def renew(self, claim: Claim, until: datetime) -> Claim | None:
        return replace(claim, until=until) if self._extend(claim, until) else None

    def release(self, claim: Claim, now: datetime) -> None:
        self._extend(claim, now)

    def _extend(self, claim: Claim, until: datetime) -> bool:
        piece = claim.slice
        key = (str(piece.burst.subject), piece.burst.seq, str(piece), claim.owner, claim.attempt)
        with self._db.write() as c:
            return c.execute(_EXTEND, (to_ms(until), claim.reached, *key)).rowcount == 1
