"""What is left of somebody's words, beside mentions: what is blanked has a write timestamp that nothing else has, so it
stays so, whoever writes once more what was there."""

from collections.abc import Collection, Iterator
from datetime import datetime

from notifier.adapters.cassandra.deadletters import letter_of
from notifier.adapters.cassandra.holds import COLUMNS, PUT_EVENT, holds_of
from notifier.adapters.cassandra.lives import FINAL, KEPT, seconds_until
from notifier.adapters.cassandra.parts import PARTS, part_of_event
from notifier.adapters.cassandra.session import Cluster
from notifier.adapters.cassandra.together import Row
from notifier.codec import pack
from notifier.domain.bursts.held_mention import WAITS, Hold
from notifier.domain.ids import UserId
from notifier.ports.clock import Clock
from notifier.ports.dead_letters import DeadLetter

PAGE = 64
"""Letters: some have a batch of rows in them."""

_LETTERS = "SELECT id, stage, cause, body, at FROM dead_letters"
_EMPTY = "UPDATE dead_letters USING TTL ? SET body = 0x WHERE id = ? IF EXISTS"


class CassandraTraces:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    def held(self, authors: Collection[UserId]) -> Iterator[Hold]:
        for part in range(PARTS):  # one in memory at a time
            found = holds_of(self._cluster.ask(COLUMNS, (part,)))
            yield from (hold for hold in found if hold.author in authors and hold.event and hold.event.text)

    def blank(self, holds: Collection[Hold]) -> None:
        now = self._clock.now()
        self._cluster.ask_each(PUT_EVENT, [_blank(hold, now) for hold in holds if hold.event])

    def letters(self) -> Iterator[DeadLetter]:
        found = self._cluster.each(_LETTERS, page=PAGE)
        return (letter_of(row) for row in found if row.body and row.at is not None)

    def empty(self, letters: Collection[DeadLetter]) -> None:
        now = self._clock.now()
        lives = [(letter, seconds_until(letter.at + KEPT, now)) for letter in letters]
        # No longer than the letter itself: of what outlived it nobody would know what it was.
        self._cluster.decide_each([(_EMPTY, (life, letter.id)) for letter, life in lives if life > 0])


def _blank(hold: Hold, now: datetime) -> Row:
    life = max(1, seconds_until(hold.since + WAITS, now))
    return part_of_event(hold.id), hold.id.id, hold.id.source, pack(hold.blank.event), FINAL, life
