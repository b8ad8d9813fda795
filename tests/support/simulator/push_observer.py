"""The ringing: whom each worker may alert, by the oracle as it takes up a push slice, held against whom it alerts."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier.domain.audience.bitmap import holds, shard_of
from notifier.domain.audience.tiers import Tier
from notifier.domain.delivery.ledger import Claim
from notifier.domain.delivery.slice import PHONES, Slice
from notifier.domain.errors import Unavailable
from notifier.domain.ids import BurstKey
from notifier.domain.push.alert import Alert, WhileAway
from notifier.domain.push.device import Device
from notifier.domain.push.receipt import Accepted, Receipt, RetryAt, Unknown
from notifier.domain.push.send_log import AlertOutcome, Window
from notifier.ports.ledger import Claims
from tests.support.fakes.push import MemoryPhones
from tests.support.oracle import Marked
from tests.support.simulator.snapshot import Sight, key_of

LATE = timedelta(minutes=15)
"""After its opening an alert is told with the older ones that are late, too."""

Name = tuple[Tier, int, datetime]
"""Of a window, among those of one burst and shard."""


@dataclass(slots=True)
class Ringing:
    """Of all workers, by owner."""

    sight: Sight
    marked: dict[str, Marked] = field(default_factory=dict)
    """What people did with their lists: known here only once it stands in the store."""
    taken: dict[tuple[str, BurstKey], frozenset[int]] = field(default_factory=dict)
    """Whom each could alert as it took up its slice, awake or not: where it is late of the older bursts, too."""
    awake: dict[str, frozenset[int]] = field(default_factory=dict)
    """Who was, as each of them took up its slice."""
    first: dict[tuple[BurstKey, Device], Name] = field(default_factory=dict)
    """The window in which each device was told for the first time."""
    taken_in: dict[tuple[BurstKey, Device], set[Name]] = field(default_factory=dict)
    """The windows that were on their way when the provider took the alert for the device."""
    wrong: list[str] = field(default_factory=list)

    def takes(self, owner: str, burst: BurstKey) -> None:
        self.taken[owner, burst], self.awake[owner] = self._may(burst), self._awake()
        by_key, now = self.sight.ground.bursts.by_key, self.sight.ground.clock.now()
        if now > by_key[burst].opened_at + LATE:
            older = (key for key in by_key if key.subject == burst.subject and key.seq < burst.seq)
            self.taken |= {(owner, key): self._may(key) for key in older}

    def rings(self, owner: str, alert: Alert, device: Device) -> None:
        """Nothing is sent that the store doesn't know of as on its way. Who was in a window is in no later one.
        What was taken is sent again as long as that isn't noted, or noted as in doubt, and no longer. Who could be
        alerted neither at the start nor now must not be. An alert stands for as many as its window names."""
        burst, member = alert.burst, device.member
        going = self._going(burst, device)
        if not going:
            self.wrong.append(f"{member} was alerted of {burst} without an intent")
        fresh = [name for name, window in going.items() if holds(window.told, member)]
        if any(self.first.setdefault((burst, device), name) != name for name in fresh):
            self.wrong.append(f"{member} was alerted of {burst} as if for the first time, and had been before")
        if (taken := self.taken_in.get((burst, device))) and not taken & self._in_doubt(burst, device):
            self.wrong.append(f"{member} was alerted of {burst} again, on a phone that is noted to have it")
        if going and (many := _stands_for(alert)) not in {_noted(window, device) for window in going.values()}:
            self.wrong.append(f"{member} was alerted of {burst} as one of {many}, which no window says")
        olders = {seq for window in going.values() for seq in window.tells(member)}
        if member not in self.awake.get(owner, frozenset()) | self._awake():
            self.wrong.append(f"{member} was alerted of {burst} while asleep")
        for key in (burst, *(BurstKey(burst.subject, seq) for seq in olders)):
            if member not in self.taken.get((owner, key), frozenset()) | self._may(key):
                self.wrong.append(
                    f"{member} was alerted of {key} after having seen, muted or blocked, or once it was taken back"
                )

    def takes_it(self, burst: BurstKey, device: Device) -> None:
        self.taken_in.setdefault((burst, device), set()).update(self._going(burst, device))

    def _going(self, burst: BurstKey, device: Device) -> Mapping[Name, Window]:
        """Those on their way with the device in them."""
        return {
            name: window
            for name, window in self._windows(burst, device)
            if window.missed is None
            if holds(window.told, device.member) or device.id in {tried.device for tried in window.again}
        }

    def _in_doubt(self, burst: BurstKey, device: Device) -> set[Name]:
        """Those that don't say yet that the device has it: who takes one over from the dead notes it as unknown."""
        return {
            name
            for name, window in self._windows(burst, device)
            if window.missed is None
            or any(one.tried.device == device.id and one.fate is AlertOutcome.UNKNOWN for one in window.missed)
        }

    def _windows(self, burst: BurstKey, device: Device) -> Iterator[tuple[Name, Window]]:
        found = self.sight.ground.sent.read(burst, device.platform, [shard_of(device.member)])
        for at, windows in found.items():
            yield from (((at.tier, window.n, window.at), window) for window in windows)

    def always(self, burst: BurstKey) -> frozenset[int]:
        """Who could be alerted at every moment so far, but for the hour: whoever did anything with a list can't any
        more."""
        oracle, now = self.sight.oracle(), self.sight.ground.clock.now()
        seen = oracle.bursts[key_of(burst)]
        if oracle.silent(seen):
            return frozenset()
        lives = self.sight.scene.lives()
        never = {p.member for p in lives if not p.push or not oracle.rings(p, seen, self._marked(p.name), now)}
        return self._may(burst) - never

    def _awake(self) -> frozenset[int]:
        now, possible = self.sight.ground.clock.now(), self.sight.scene.possible().values()
        return frozenset(p.member for people in possible for p in people if not p.sleeps(now))

    def _may(self, burst: BurstKey) -> frozenset[int]:
        oracle, now = self.sight.lenient(), self.sight.ground.clock.now()
        seen, possible = oracle.bursts[key_of(burst)], self.sight.scene.possible().values()
        return frozenset(
            p.member for people in possible for p in people if oracle.rings(p, seen, self._marked(p.name), now)
        )

    def _marked(self, name: str) -> Marked:
        return self.marked.get(name, Marked())


def _stands_for(alert: Alert) -> int:
    return alert.news.count if isinstance(alert.news, WhileAway) else 1


def _noted(window: Window, device: Device) -> int:
    """For how many bursts its alert to the device stands."""
    again = [tried.away for tried in window.again if tried.device == device.id]
    return max(1, *again) if again else 1 + len(window.tells(device.member))


@dataclass(frozen=True, slots=True)
class OwnClaims:
    """One worker's."""

    claims: Claims
    ringing: Ringing

    def claim(self, piece: Slice, owner: str, now: datetime, until: datetime) -> Claim | None:
        claim = self.claims.claim(piece, owner, now, until)
        if claim is not None and piece.step in PHONES:
            self.ringing.takes(owner, piece.burst)
        return claim

    def renew(self, claim: Claim, until: datetime) -> Claim | None:
        return self.claims.renew(claim, until)

    def release(self, claim: Claim, now: datetime) -> None:
        self.claims.release(claim, now)


@dataclass(frozen=True, slots=True)
class OwnPhones:
    """A Provider of one worker's: where the line to it fails, it says whether the alert may have arrived."""

    line: MemoryPhones
    """With a tap on it."""
    phones: MemoryPhones
    ringing: Ringing
    owner: str

    def send(self, alert: Alert, devices: Iterable[Device]) -> Iterator[tuple[Device, Receipt]]:
        for device in devices:
            self.ringing.rings(self.owner, alert, device)
            receipt = self._ring(alert, device)
            if isinstance(receipt, Accepted):
                self.ringing.takes_it(alert.burst, device)
            yield device, receipt

    def _ring(self, alert: Alert, device: Device) -> Receipt:
        before = len(self.phones.arrived)
        try:
            return self.line.ring(alert, device)
        except Unavailable as cause:
            if (alert, device) in self.phones.arrived[before:]:
                return Unknown(reason=str(cause))
            return RetryAt(at=self.ringing.sight.ground.clock.now() + timedelta(seconds=10), reason=str(cause))
