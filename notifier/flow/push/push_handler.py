"""Push: after the rows, one alert for those of a slice who had a device when it was sealed and may still be told."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from notifier.domain.audience.bitmap import count
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import Entry, Fact
from notifier.domain.delivery.slice import Slice
from notifier.domain.ids import Platform
from notifier.domain.push.send_log import NOTHING_SENT, Sending, Window, progress
from notifier.flow.delivery.slice_worker import Hold
from notifier.flow.push.batches import AT_ONCE, Calls, Part, Shard
from notifier.flow.push.catch_up import IN_TIME, Away
from notifier.flow.push.circuit_breakers import Breakers, Reachable
from notifier.flow.push.rate_limiter import Pacing
from notifier.flow.push.sender import Ringing
from notifier.ports.bursts import Bursts
from notifier.ports.clock import Clock
from notifier.ports.inbox import Seals
from notifier.ports.push import Sent, Spared

SHARDS_AT_ONCE = 128
"""As many as a slice of P0 has, whose few people are one batch then. Their bitmaps are 12 MB at the most."""
NO_ROOM = timedelta(seconds=1)
"""Until a provider's pace has saved up as much as it may."""


@dataclass(slots=True)
class _Tally:
    """Of one slice."""

    people: int = 0
    """Told, by all windows so far: the same whoever counts."""
    later: list[datetime] = field(default_factory=list)
    """When there is more to do."""
    rang: bool = False
    """In this turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    bursts: Bursts
    seals: Seals
    spared: Spared
    sent: Sent
    away: Away
    calls: Calls
    ringing: Ringing
    breakers: Breakers
    pacing: Mapping[Platform, Pacing]
    clock: Clock
    at_once: int = AT_ONCE

    def __call__(self, burst: Burst, piece: Slice, hold: Hold) -> Entry:
        now, tally = self.clock.now(), _Tally()
        if now >= burst.opened_at + piece.terms.worth:
            return Entry(slice=piece, fact=Fact.PULLED, at=now)
        if (until := self.breakers.rests_until(piece.step.platform)) is not None:
            return Entry(slice=piece, fact=Fact.WAITS, at=until)
        for start in range(0, piece.width, SHARDS_AT_ONCE):
            hold.going()
            if self._silent(burst):  # here, too: what was taken back before its turn counts for nobody's cap
                tally.later.clear()
                break
            shards = self._shards(burst, piece, piece.shards[start : start + SHARDS_AT_ONCE], tally)
            if not self._ring(burst, self._summed(burst, piece, shards, hold, tally), hold, tally):
                break
        if tally.later:
            return Entry(slice=piece, fact=Fact.WAITS, at=min(tally.later))
        return Entry(slice=piece, fact=Fact.DONE, at=self.clock.now(), people=tally.people)

    def _shards(self, burst: Burst, piece: Slice, run: Sequence[int], tally: _Tally) -> Sequence[Shard]:
        """The seal says whom it was for; who has seen, muted or blocked since then is taken out right before sending,
        and so is who wants no alerts. Fails closed: while nobody can say who that is, the slice waits."""
        platform, now = piece.step.platform, self.clock.now()
        found = {s: bits for s, bits in self.seals.alerted(burst.key, run, piece.tier).items() if bits.any()}
        sent = self.sent.read(burst.key, platform, found) if found else {}
        spare = self.spared.read(burst, found, now) if found else {}
        shards = []
        for shard, alerted in sorted(found.items(), key=lambda of: of[0]):
            sending = Sending(burst.key, piece.tier, shard, platform)
            done = progress(sent.get(sending, ())) if sent else NOTHING_SENT
            shards.append(Shard(sending=sending, progress=done, alerted=alerted, spare=spare[shard]))
            tally.people += count(done.told)
            tally.later.extend(shards[-1].later(now))
        return shards

    def _summed(
        self, burst: Burst, piece: Slice, shards: Sequence[Shard], hold: Hold, tally: _Tally
    ) -> Sequence[Shard]:
        """With what is late. Where a newer burst may come first the slice waits, and holds no worker meanwhile."""
        now, people = self.clock.now(), {shard.sending.shard: shard.fresh for shard in shards}
        found = self.away(burst, piece.step.platform, people, now, hold.going)
        if any(of.held.any() for of in found.values()):
            tally.later.append(self.away.again_at(piece, now))
        return [replace(shard, summed=found.get(shard.sending.shard, IN_TIME)) for shard in shards]

    def _ring(self, burst: Burst, shards: Iterable[Shard], hold: Hold, tally: _Tally) -> bool:
        """False where the rest is for later, or for nobody any more."""
        for parts in self._batches(burst, shards, hold):
            # Handed back before anything was sent, a slice whose reading takes a turn would begin anew for ever.
            (hold.keep if tally.rang else hold.going)()
            if self._silent(burst):  # since the slice began
                tally.later.clear()
                return False
            platform, reachable = parts[0].sending.platform, Reachable(breakers=self.breakers)
            able = reachable(parts)
            granted = list(self._granted(able))
            self._add(tally, granted, self.ringing(burst, granted, hold) if granted else ())
            tally.later.extend(self._again_at(line) for line in reachable.shut)
            if _calls(granted) < _calls(able):
                tally.later.append(self._again_at(platform))
                return False
            if platform in reachable.shut:  # of all there are
                return False
        return True

    def _batches(self, burst: Burst, shards: Iterable[Shard], hold: Hold) -> Iterator[Sequence[Part]]:
        """Of many shards with few people each one batch: a provider takes as long for one as for a thousand."""
        batch, size = list[Part](), 0
        for shard in shards:
            hold.going()
            for part in self.calls(burst, shard, self.clock.now()):
                batch.append(part)
                size += len(part.calls)
                if size >= self.at_once:
                    yield batch
                    batch, size = [], 0
        if batch:
            yield batch

    def _granted(self, parts: Sequence[Part]) -> Iterator[Part]:
        """As much as the provider's pace has room for."""
        left = self._drawn(parts[0].sending, wanted) if (wanted := _calls(parts)) else 0
        for part in parts:
            if part.calls and left <= 0:
                return
            cut = part.cut(left)
            left -= len(cut.calls)
            yield cut

    def _drawn(self, at: Sending, wanted: int) -> int:
        return self.pacing[at.platform].draw(at.tier, wanted, self.clock.now())

    def _again_at(self, line: str) -> datetime:
        return self.breakers.rests_until(line) or self.clock.now() + NO_ROOM

    def _add(self, tally: _Tally, parts: Sequence[Part], closed: Sequence[Window]) -> None:
        tally.rang = tally.rang or bool(parts)
        tally.people += sum(count(part.window.told) for part in parts if not part.written)
        tally.later.extend(one.at for window in closed for one in window.missed or () if one.at is not None)

    def _silent(self, burst: Burst) -> bool:
        return self.bursts.read([burst.key])[burst.key].silent


def _calls(parts: Iterable[Part]) -> int:
    return sum(len(part.calls) for part in parts)
