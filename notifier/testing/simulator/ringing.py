"""The ringing: whom each worker may alert, by the oracle as it takes up a push slice, held against whom it alerts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from notifier.domain.alert import Alert
from notifier.domain.bits import shard_of
from notifier.domain.ledger import Claim
from notifier.domain.slice import Slice, Step
from notifier.domain.subject import BurstKey, Member
from notifier.ports.ledger import Claims
from notifier.ports.push import Sender, Sending, Sent
from notifier.testing.oracle import Marked
from notifier.testing.simulator.sight import Sight, key_of


@dataclass(slots=True)
class Ringing:
    """Of all workers, by owner."""

    sight: Sight
    marked: dict[str, Marked] = field(default_factory=dict)
    """What people did with their lists: known here only once it stands in the store."""
    taken: dict[str, frozenset[int]] = field(default_factory=dict)
    intended: dict[str, Sending] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def takes(self, owner: str, burst: BurstKey) -> None:
        self.taken[owner] = self._may(burst)

    def rings(self, owner: str, burst: BurstKey, members: Sequence[Member]) -> None:
        """An intent is good for one window; who could be alerted neither at the start nor now must not be."""
        window = self.intended.pop(owner, None)
        for member in members:
            if window is None or (window.burst, window.shard) != (burst, shard_of(member)):
                self.wrong.append(f"{member} was alerted of {burst} without an intent")
        for member in sorted(set(members) - self.taken.get(owner, frozenset()) - self._may(burst)):
            self.wrong.append(
                f"{member} was alerted of {burst} after having seen, muted or blocked, or once it was taken back"
            )

    def always(self, burst: BurstKey) -> frozenset[int]:
        """Who could be alerted at every moment so far: whoever did anything with a list can't any more."""
        oracle, now = self.sight.oracle(), self.sight.ground.clock.now()
        seen = oracle.bursts[key_of(burst)]
        if oracle.silent(seen):
            return frozenset()
        lives = self.sight.scene.lives()
        return self._may(burst) - {p.member for p in lives if not oracle.rings(p, seen, self._marked(p.name), now)}

    def _may(self, burst: BurstKey) -> frozenset[int]:
        oracle, now = self.sight.lenient(), self.sight.ground.clock.now()
        seen, possible = oracle.bursts[key_of(burst)], self.sight.scene.possible().values()
        return frozenset(
            p.member for people in possible for p in people if oracle.rings(p, seen, self._marked(p.name), now)
        )

    def _marked(self, name: str) -> Marked:
        return self.marked.get(name, Marked())


@dataclass(frozen=True, slots=True)
class OwnClaims:
    """One worker's."""

    claims: Claims
    ringing: Ringing

    def claim(self, piece: Slice, owner: str, now: datetime, until: datetime) -> Claim | None:
        claim = self.claims.claim(piece, owner, now, until)
        if claim is not None and piece.step is Step.PUSH:
            self.ringing.takes(owner, piece.burst)
        return claim

    def renew(self, claim: Claim, until: datetime) -> Claim | None:
        return self.claims.renew(claim, until)

    def release(self, claim: Claim, now: datetime) -> None:
        self.claims.release(claim, now)


@dataclass(frozen=True, slots=True)
class OwnSent:
    sent: Sent
    ringing: Ringing
    owner: str

    def intend(self, sending: Sending) -> bool:
        mine = self.sent.intend(sending)
        if mine:
            self.ringing.intended[self.owner] = sending
        return mine

    def outcome(self, sending: Sending, sent: int) -> None:
        self.sent.outcome(sending, sent)


@dataclass(frozen=True, slots=True)
class OwnPhones:
    sender: Sender
    ringing: Ringing
    owner: str

    def send(self, alert: Alert, members: Sequence[Member]) -> None:
        self.ringing.rings(self.owner, alert.burst, members)
        self.sender.send(alert, members)
