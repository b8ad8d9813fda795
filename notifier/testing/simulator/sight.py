"""The sight from above: what stands in the ground at one moment, in the oracle's words."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from notifier.domain.subject import BurstKey, Lane
from notifier.testing.oracle import Key, Marked, Oracle, Seen, Tweet
from notifier.testing.simulator.ground import Ground
from notifier.testing.simulator.scene import Scene
from notifier.testing.simulator.withdrawals import Withdrawals


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

    def oracle(self) -> Oracle:
        """By all that was said."""
        mentions: dict[BurstKey, list[str]] = {}
        for (key, event), _ in self.ground.bursts.mentions.items():
            mentions.setdefault(key, []).append(event.id)
        bursts = {
            key_of(key): Seen(
                key=key_of(key),
                opened_at=burst.opened_at,
                tweets=tuple(mentions.get(key, [burst.tweet])),
                spared=burst.pull_only,
                standard=burst.lane is Lane.STANDARD,
                secret=self.ground.bursts.secret[key],
                left_to=burst.restricted_to or "" if not self.ground.bursts.secret[key] else "",
                opened=self.ground.bursts.opened[key],
                gone=self.ground.bursts.gone.get(key),
            )
            for key, burst in self.ground.bursts.by_key.items()
        }
        words = self.withdrawals.said()
        return Oracle(people=self.scene.people, tweets=self.tweets, bursts=bursts, words=words)

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
        could_be = (each.of(one) for each in words for one in self.scene.possible()[person])
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
