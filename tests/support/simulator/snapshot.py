"""The sight from above: what stands in the ground at one moment, in the oracle's words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import BurstKey, Lane
from tests.support.oracle import Key, Marked, Oracle, Seen, Tweet
from tests.support.simulator.cast import Scene
from tests.support.simulator.durable_state import Ground
from tests.support.simulator.retractions import Withdrawals


def key_of(burst: BurstKey) -> Key:
    return str(burst.subject.kind), burst.subject.owner, burst.seq


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One person's list at one moment."""

    oracle: Oracle
    lenient: Oracle
    published: frozenset[Key]
    moving: frozenset[Key]
    """Bursts that a head is publishing: their place and names may change under a page."""
    refused: frozenset[Key]
    """Bursts that Redis refused and still lacks."""
    changes: int
    may: frozenset[Key]
    """What the list may show: something that is on its way may have come."""
    must: frozenset[Key]
    now: datetime


@dataclass(frozen=True, slots=True)
class Sight:
    ground: Ground
    scene: Scene
    tweets: Mapping[str, Tweet]
    withdrawals: Withdrawals
    _seen: dict[BurstKey, tuple[object, Seen]] = field(default_factory=dict, init=False, repr=False, compare=False)
    """As it was when last looked at: of hundreds of looks hardly one finds a burst changed."""

    def oracle(self) -> Oracle:
        """By all that was said."""
        mentions: dict[BurstKey, list[str]] = {}
        for (key, event), _ in self.ground.bursts.mentions.items():
            mentions.setdefault(key, []).append(event.id)
        found = [self._of(burst, mentions.get(key, ())) for key, burst in self.ground.bursts.by_key.items()]
        bursts = {seen.key: seen for seen in found}
        words = self.withdrawals.said()
        return Oracle(people=self.scene.people, tweets=self.tweets, bursts=bursts, words=words)

    def _of(self, burst: Burst, mentions: Sequence[str]) -> Seen:
        key, ground = burst.key, self.ground.bursts
        tweets, secret = tuple(mentions) or (burst.tweet,), ground.secret[key]
        opened, gone = ground.opened[key], ground.gone.get(key)
        state = burst, tweets, secret, opened, gone
        if key not in self._seen or self._seen[key][0] != state:
            seen = Seen(
                key=key_of(key),
                opened_at=burst.opened_at,
                tweets=tweets,
                spared=burst.pull_only,
                standard=burst.lane is Lane.STANDARD,
                secret=secret,
                left_to="" if secret else burst.restricted_to or "",
                opened=opened,
                gone=gone,
            )
            self._seen[key] = state, seen
        return self._seen[key][1]

    def lenient(self) -> Oracle:
        """As if nothing had come of what was taken back but what must have."""
        oracle = self.oracle()
        if not oracle.words:
            return oracle
        return replace(oracle, words=self.withdrawals.sure(), unsettled=self.withdrawals.unsettled())

    def look(self, person: str, marked: Marked) -> Look:
        oracle, now = self.oracle(), self.ground.clock.now()
        lenient = self.lenient() if oracle.words else oracle
        words = [oracle, lenient] if oracle.words else [oracle]
        possible = self.scene.possibly(person)
        could_be = (each.of(one) for each in words for one in possible)
        lists = [frozenset(one.list(person, marked, now)) for one in could_be]
        heads = self.ground.heads.load(self.ground.heads.unpublished(1_000)).values()
        return Look(
            oracle=oracle,
            lenient=lenient,
            published=frozenset(map(key_of, self.ground.published())),
            moving=frozenset(key_of(burst.key) for head in heads for burst in head.outbox),
            refused=frozenset(map(key_of, self.ground.unannounced)),
            changes=self.scene.changes[person],
            may=frozenset[Key]().union(*lists),
            must=lists[0].intersection(*lists[1:]),
            now=now,
        )
