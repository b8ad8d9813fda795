"""Lateness: when an alert is no news any more, and what of a subject's late alerts the alert of one burst tells."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifier.domain.audience.bitmap import Bits, nobody
from notifier.domain.audience.snapshot import Seal
from notifier.domain.audience.tiers import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.delivery.ledger import Account, Fact, Standing
from notifier.domain.delivery.slice import Step
from notifier.domain.ids import Platform
from notifier.domain.push.send_log import Olders, Window
from notifier.domain.timing import backoff

SOON = timedelta(minutes=2)
"""Who waits no longer than that is waited for."""
PAUSE, LONGEST = timedelta(seconds=1), SOON
"""Of who waits for a newer one: from a second on to half of the longest. Each is a cell in the ledger."""

Shards = Mapping[Tier, Collection[int]]
"""Those that slices of a tier have."""


def rings(burst: Burst) -> bool:
    """Whether it was ever to ring. It never changes; that it is taken back is another matter."""
    return burst.verdict is Verdict.ALL and not burst.pull_only


def pause(waited: int) -> timedelta:
    return backoff(waited, 0.0, first=PAUSE, longest=LONGEST)


def coming(account: Account, platform: Platform, now: datetime) -> Shards:
    """Of the slices that have a turn soon, or have one now."""
    return _shards(one for one in _phones(account, platform) if account.awake(one, now + SOON))


def owing(account: Account, platform: Platform) -> Shards:
    """Of the slices that haven't told everybody yet, and of those that died over it: of them nobody else tells."""
    of = _phones(account, platform)
    return _shards(one for one in of if one.ended is None or one.ended.fact is Fact.DEAD)


def covered(seal: Seal, shards: Shards) -> Bits:
    """Whom these alert by the seal, whatever tier people were in then."""
    found = nobody()
    for tier, some in shards.items():
        if seal.shard in some:
            found = found | seal.alerted(tier)
    return found


@dataclass(slots=True, kw_only=True)
class Lot:
    """People of a shard, to be told of a burst that is late, while other bursts are looked at from the newest on."""

    left: Bits
    """To whom its own alert goes."""
    collapsed: Bits = field(default_factory=nobody)
    """The alert of a newer one has told them of it."""
    held: Bits = field(default_factory=nobody)
    """A newer one is about to be told to them, and it isn't known yet whether it is."""
    tells: dict[Olders, Bits] = field(default_factory=dict)
    """Those left, by the older bursts of which its alert tells them, too: of people to whom it tells of none, by ()."""
    heard: list[tuple[Olders, Bits]] = field(default_factory=list)
    """What other bursts' alerts told whom."""

    def __post_init__(self) -> None:
        self.tells = {(): self.left}

    def hear(self, windows: Sequence[Window]) -> None:
        for window in windows:
            for olders, bits in window.away.items():
                if (found := bits & self.left).any():
                    self.heard.append((olders, found))

    def told_of(self, seq: int) -> Bits:
        """Whom another's alert told of that one, too."""
        found = nobody()
        for olders, bits in self.heard:
            if seq in olders:
                found = found | bits
        return found

    def collapse(self, people: Bits) -> None:
        self.collapsed = self.collapsed | (self.left & people)
        self._leave(people)

    def hold(self, people: Bits) -> None:
        self.held = self.held | (self.left & people)
        self._leave(people)

    def tell(self, seq: int, people: Bits) -> None:
        """Of that older one, too; of several the newest is to be said first."""
        found = dict[Olders, Bits]()
        for olders, bits in self.tells.items():
            for key, some in (((seq, *olders), bits & people), (olders, bits & ~people)):
                if some.any():
                    found[key] = some
        self.tells = found

    def _leave(self, people: Bits) -> None:
        self.left = self.left & ~people
        self.tells = {(): self.left}


def _phones(account: Account, platform: Platform) -> Iterator[Standing]:
    step = Step.of(platform)
    return (standing for piece, standing in account.standings.items() if piece.step is step)


def _shards(standings: Iterable[Standing]) -> Shards:
    found = dict[Tier, set[int]]()
    for standing in standings:
        found.setdefault(standing.slice.tier, set()).update(standing.slice.shards)
    return found
