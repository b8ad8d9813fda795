"""Catch-up step: reads sibling bursts and merges late alerts of one subject into one summary.

An alert names the older bursts that it covers, member by member, in the window that is written before it is sent. An
older burst is collapsed only once such a window names it, never because a newer burst is still to come: that one may
find that the member has seen it, is suppressed, or has no device of this platform. Until that is known the older one
waits.

Every wait ends. Nothing waits for an older burst, so the newest late burst waits for none. A burst that others wait for
has its turn soon: it alerts its members, or suppresses them, or itself waits for a newer one, and then the next older
burst is the newest. No slice outlives its day.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from notifier.domain.audience.bitmap import Bits
from notifier.domain.audience.snapshot import Seal
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import BurstProgress, stale
from notifier.domain.delivery.slice import Slice
from notifier.domain.errors import Poison
from notifier.domain.ids import BurstKey, Platform, Subject
from notifier.domain.push.catch_up import (
    NEWER_DUE_WITHIN,
    LateAudience,
    ShardsByTier,
    alerted_in,
    due_soon,
    recheck_after,
    sends_alerts,
    unfinished,
)
from notifier.domain.push.send_log import Window, progress
from notifier.domain.push.shard_state import ShardState
from notifier.domain.timing import REACH
from notifier.flow.delivery.slice_worker import SliceLease
from notifier.ports.bursts import Bursts
from notifier.ports.inbox import Seals
from notifier.ports.ledger import Ledger
from notifier.ports.push import SendLog, Spared

FIRST_READ = 16
"""Burst numbers in the first read, doubled with each further read: a subject's budget allows thirty fan-outs a day, and
its restricted budget as many. Bursts that never send alerts use up any number of numbers between them."""
REMEMBERED = 65_536
"""Bursts without alerts that are remembered; 20 MB."""
_EVER = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True, kw_only=True)
class SiblingBursts:
    """Bursts of the same subject that were to send alerts. For one thread.

    Each is read anew, because it may have been retracted, unless it never sends alerts.
    """

    bursts: Bursts
    most: int = REMEMBERED
    without_alerts: dict[BurstKey, datetime] = field(default_factory=dict, init=False)
    """Bursts that never send alerts, with their opening times."""

    def newer(self, burst: Burst) -> Sequence[Burst]:
        """Return all newer siblings, the newest first."""
        return list(self._walk(burst.key.subject, _ascending(burst.key.seq + 1), _EVER))[::-1]

    def older(self, burst: Burst, since: datetime) -> Sequence[Burst]:
        """Return the older siblings that opened at `since` or later, the newest first."""
        found = self._walk(burst.key.subject, _descending(burst.key.seq - 1), since)
        return [sibling for sibling in found if sibling.opened_at >= since]

    def _walk(self, subject: Subject, runs: Iterator[range], since: datetime) -> Iterator[Burst]:
        """Stop at the last burst, or at one that opened before `since`: numbers follow the order of openings."""
        for run in runs:
            keys = [BurstKey(subject, seq) for seq in run]
            found = self.bursts.read([key for key in keys if key not in self.without_alerts])
            opened = found[keys[-1]].opened_at if keys[-1] in found else self.without_alerts.get(keys[-1])
            self._remember(found.values())
            yield from (found[key] for key in keys if key in found and sends_alerts(found[key]))
            if opened is None or opened < since:
                return

    def _remember(self, bursts: Iterable[Burst]) -> None:
        if len(self.without_alerts) > self.most:
            self.without_alerts.clear()
        self.without_alerts |= {burst.key: burst.opened_at for burst in bursts if not sends_alerts(burst)}


def _ascending(seq: int) -> Iterator[range]:
    size = FIRST_READ
    while True:
        yield range(seq, seq + size)
        seq, size = seq + size, size * 2


def _descending(seq: int) -> Iterator[range]:
    size = FIRST_READ
    while seq > 0:
        yield range(seq, max(0, seq - size), -1)
        seq, size = seq - size, size * 2


AudienceByShard = Mapping[int, LateAudience]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp:
    """For each sibling burst, all shards of the slice are read together."""

    siblings: SiblingBursts
    ledger: Ledger
    seals: Seals
    sent: SendLog
    spared: Spared

    def apply(
        self, burst: Burst, platform: Platform, states: Sequence[ShardState], lease: SliceLease, now: datetime
    ) -> Sequence[ShardState]:
        """Return the shards with what is late decided. A burst that is in time reads nothing."""
        ready = {state.shard: state.ready for state in states}
        audiences = {shard: LateAudience.starting(bits) for shard, bits in ready.items() if bits.any()}
        if not audiences or not stale(burst, now):
            return states
        for newer in self.siblings.newer(burst):
            lease.going()
            audiences |= self._consider_newer(burst, newer, platform, _remaining(audiences), now)
        for older in self.siblings.older(burst, now - REACH) if _remaining(audiences) else ():
            lease.going()
            audiences |= self._cover_older(older, platform, _remaining(audiences), now)
        return [state.after_catch_up(audiences[state.shard]) if state.shard in audiences else state for state in states]

    def recheck_at(self, piece: Slice, now: datetime) -> datetime:
        """When a slice that waits for newer bursts looks again: the later, the more often it has waited."""
        return now + recheck_after(self.ledger.read([piece.burst])[piece.burst].standings[piece].waited)

    def _consider_newer(
        self, burst: Burst, newer: Burst, platform: Platform, audiences: AudienceByShard, now: datetime
    ) -> AudienceByShard:
        """Collapse members whom the newer burst told of this one; defer those whom it may be about to tell."""
        seals = self._seals(newer, audiences)
        # Read the ledger before the windows: the windows of a slice that has ended by then are complete. In the other
        # order, a slice that tells of this burst between the two reads would look ended, and be in no window.
        # A newer burst that is still in time may be late by the moment it sends, so look ahead.
        late = stale(newer, now + NEWER_DUE_WITHIN)
        due = self._slices(newer, seals, lambda account: due_soon(account, platform, now)) if late else {}
        windows = self._windows(newer.key, platform, seals)
        found, pending = dict[int, LateAudience](), dict[int, Bits]()
        for shard, seal in seals.items():
            written = windows.get(shard, ())
            audience = audiences[shard].having_read(written)
            found[shard] = audience.collapse(audience.told_of(burst.key.seq))
            pending[shard] = alerted_in(seal, due) & found[shard].remaining & ~progress(written).intended
        for shard, bits in self._not_suppressed(newer, pending, now).items():
            found[shard] = found[shard].defer(bits)
        return found

    def _cover_older(
        self, older: Burst, platform: Platform, audiences: AudienceByShard, now: datetime
    ) -> AudienceByShard:
        """Let this alert cover the older burst for members who were still to be told of it."""
        seals = self._seals(older, audiences)
        windows = self._windows(older.key, platform, seals)
        found, untold = dict[int, LateAudience](), dict[int, Bits]()
        for shard, seal in seals.items():
            written = windows.get(shard, ())
            audience = found[shard] = audiences[shard].having_read(written)
            bits = seal.push & audience.remaining & ~progress(written).intended & ~audience.told_of(older.key.seq)
            if bits.any():
                untold[shard] = bits
        owed = self._slices(older, untold, lambda account: unfinished(account, platform))
        untold = {shard: bits & alerted_in(seals[shard], owed) for shard, bits in untold.items()}
        for shard, bits in self._not_suppressed(older, untold, now).items():
            found[shard] = found[shard].cover(older.key.seq, bits)
        return found

    def _seals(self, sibling: Burst, audiences: AudienceByShard) -> Mapping[int, Seal]:
        """Read the shards in which the sibling was for any of these members. In an unsealed shard it alerted nobody."""
        found = self.seals.read(sibling.key, audiences) if audiences else {}
        return {shard: seal for shard, seal in found.items() if (seal.push & audiences[shard].remaining).any()}

    def _slices(
        self, sibling: Burst, shards: Collection[int], which: Callable[[BurstProgress], ShardsByTier]
    ) -> ShardsByTier:
        """Return nothing for a retracted sibling, and for one whose account is unreadable: it is never dispatched."""
        if not shards or sibling.silent:
            return {}
        try:
            account = self.ledger.read([sibling.key]).get(sibling.key)
        except Poison:
            return {}
        return which(account) if account else {}

    def _windows(self, key: BurstKey, platform: Platform, shards: Collection[int]) -> Mapping[int, Sequence[Window]]:
        """Read the windows of all tiers: a member may have been in another tier when the sibling was sealed."""
        found = dict[int, list[Window]]()
        for sending, windows in self.sent.read(key, platform, shards).items() if shards else ():
            found.setdefault(sending.shard, []).extend(windows)
        return found

    def _not_suppressed(self, sibling: Burst, members: Mapping[int, Bits], now: datetime) -> Mapping[int, Bits]:
        some = {shard: bits for shard, bits in members.items() if bits.any()}
        spare = self.spared.read(sibling, some, now) if some else {}
        return {shard: bits & ~spare[shard].never for shard, bits in some.items()}


def _remaining(audiences: AudienceByShard) -> AudienceByShard:
    return {shard: audience for shard, audience in audiences.items() if audience.remaining.any()}
