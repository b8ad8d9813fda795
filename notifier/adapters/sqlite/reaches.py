"""What operators said of mentioners, in core.db, each word with its audit row in the same transaction."""

import json
from collections.abc import Collection, Mapping, Sequence

from notifier.adapters.sqlite.audit import record
from notifier.adapters.sqlite.connection import Database
from notifier.adapters.sqlite.statements import statement
from notifier.codec.moments import from_ms, to_ms
from notifier.domain.bursts.moderation import ReachWord, Verdict, told
from notifier.domain.ids import UserId

_SAY = statement("say_reach")
_LISTED = "SELECT user, verdict, reason, who, at FROM reaches ORDER BY user"
_STANDING = "SELECT user, verdict, reason, who, at FROM reaches WHERE user IN (SELECT value FROM json_each(?))"


class SqliteReaches:
    def __init__(self, db: Database) -> None:
        self._db = db

    def say(self, word: ReachWord) -> None:
        with self._db.write() as c:
            c.execute(_SAY, (word.user, str(word.verdict), word.reason, word.who, to_ms(word.at)))
            record(c, at=word.at, who=word.who, what="reach.say", detail=told(word))

    def standing(self, users: Collection[UserId]) -> Mapping[UserId, ReachWord]:
        with self._db.read() as c:
            found = [_word(row) for row in c.execute(_STANDING, (json.dumps(list(users)),))]
        return {word.user: word for word in found}

    def listed(self) -> Sequence[ReachWord]:
        with self._db.read() as c:
            return [_word(row) for row in c.execute(_LISTED)]


def _word(row: tuple[str, str, str, str, int]) -> ReachWord:
    user, verdict, reason, who, at = row
    return ReachWord(user=UserId(user), verdict=Verdict(verdict), reason=reason, who=who, at=from_ms(at))
