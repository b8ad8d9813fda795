"""The claims: one row a slice, changed by compare-and-set; owner and attempt say whose it is."""

from dataclasses import replace
from datetime import datetime

from notifier.adapters.cassandra.session import SERIAL, Cluster
from notifier.adapters.cassandra.statements import statement
from notifier.codec.moments import to_ms
from notifier.domain.delivery.ledger import Claim
from notifier.domain.delivery.slice import Slice
from notifier.domain.errors import StoreUnavailable

_FIRST = statement("first_claim")
_NEXT = statement("next_claim")
_EXTEND = statement("extend_claim")
_STORED = "SELECT attempt, owner, claimed_at, until, reached FROM claims WHERE subject = ? AND seq = ? AND slice = ?"

Row = tuple[int, str, int, int, int]
"""Attempt, owner, claimed at, until and reached."""


class CassandraClaims:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def claim(self, piece: Slice, owner: str, now: datetime, until: datetime) -> Claim | None:
        mine = Claim(slice=piece, attempt=1, owner=owner, claimed_at=now, until=until)
        # Nearly every slice has one claim, for which nothing need be read.
        if self._decide(_FIRST, mine, (*_key(piece), *_row(mine))):
            return mine
        stored = self._stored(piece)
        if stored is None or stored[3] > to_ms(now):
            return None
        attempt, _, _, ends, reached = stored
        mine = replace(mine, attempt=attempt + 1, reached=reached)
        # Unchanged since it was read: a release that came in between knows better how far the work is.
        unchanged = attempt, ends, reached
        return mine if self._decide(_NEXT, mine, (*_row(mine), *_key(piece), *unchanged)) else None

    def renew(self, claim: Claim, until: datetime) -> Claim | None:
        longer = replace(claim, until=until)
        return longer if self._extend(longer) else None

    def release(self, claim: Claim, now: datetime) -> None:
        self._extend(replace(claim, until=now))

    def _extend(self, claim: Claim) -> bool:
        return self._decide(_EXTEND, claim, (*_row(claim), *_key(claim.slice), claim.owner, claim.attempt))

    def _decide(self, statement: str, claim: Claim, values: tuple[object, ...]) -> bool:
        """Whether the claim stands. Where the answer was lost a read at SERIAL tells, unless it may still take effect:
        then this raises. A claim that nobody knows of runs out.
        """
        [applied] = self._cluster.decide_each([(statement, values)])
        if applied is not None:
            return applied
        stored = self._stored(claim.slice)
        if stored == _row(claim):
            return True
        if stored is None or stored[0] < claim.attempt or stored[:2] == _row(claim)[:2]:
            raise StoreUnavailable(f"Whether {claim.slice} was claimed isn't known yet.")
        return False

    def _stored(self, piece: Slice) -> Row | None:
        rows = self._cluster.ask(_STORED, _key(piece), profile=SERIAL)
        return tuple(rows[0]) if rows else None


def _key(piece: Slice) -> tuple[str, int, str]:
    return str(piece.burst.subject), piece.burst.seq, str(piece)


def _row(claim: Claim) -> Row:
    return claim.attempt, claim.owner, to_ms(claim.claimed_at), to_ms(claim.until), claim.reached
