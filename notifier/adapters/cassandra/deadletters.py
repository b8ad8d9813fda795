"""The dead letters: a letter by its id, then its line in the list of its day."""

from collections.abc import Sequence
from datetime import timedelta

from notifier.adapters.cassandra.lives import KEPT
from notifier.adapters.cassandra.session import SERIAL, Cluster
from notifier.codec.moments import from_ms, to_ms
from notifier.ports.clock import Clock
from notifier.ports.dead_letters import DeadLetter

# No TTL is bound: both tables keep what they have for 91 days, by their default.
_PUT = "INSERT INTO dead_letters (id, stage, cause, body, at) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS"
_READ = "SELECT id, stage, cause, body, at FROM dead_letters WHERE id = ?"
_LIST = "INSERT INTO dead_letters_of_day (day, at, id) VALUES (?, ?, ?)"
_OF_DAY = "SELECT id FROM dead_letters_of_day WHERE day = ? LIMIT ?"

_DAY = timedelta(days=1) // timedelta(milliseconds=1)
AHEAD = timedelta(minutes=5)
"""Of a letter's time, by another machine's clock."""


class CassandraDeadLetters:
    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock

    def put(self, letter: DeadLetter) -> None:
        # A letter whose answer was lost raises: it is put again, and found. A crash between the letter and its line is
        # mended in the same way, because the line is written by the letter that stands, whoever had written it.
        at = to_ms(letter.at)
        if not self._cluster.decide(_PUT, (letter.id, letter.stage, letter.cause, letter.body, at)):
            at = self._cluster.ask(_READ, (letter.id,), profile=SERIAL)[0].at
        self._cluster.ask(_LIST, (at // _DAY, at, letter.id))

    def list(self, limit: int) -> Sequence[DeadLetter]:
        now = self._clock.now()
        found: list[DeadLetter] = []
        for day in range(to_ms(now + AHEAD) // _DAY, to_ms(now - KEPT) // _DAY - 1, -1):
            if len(found) >= limit:
                break
            ids = self._cluster.ask(_OF_DAY, (day, limit - len(found)))
            found += [letter_of(rows[0]) for rows in self._cluster.ask_each(_READ, ids) if rows]
        return found


def letter_of(row: tuple[str, str, str, bytes, int]) -> DeadLetter:
    id, stage, cause, body, at = row
    return DeadLetter(id=id, stage=stage, cause=cause, body=body, at=from_ms(at))
