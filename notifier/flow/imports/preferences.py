"""An import of preferences: words in their rows as they are read, and then the bitmaps of them are asked for."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TypeVar

from notifier import topics
from notifier.codec import pack
from notifier.domain.audience.bitmap import shard_of
from notifier.domain.audience.follow_import import EVERYBODY, Keys, by_account, touched
from notifier.domain.ids import Member
from notifier.domain.upstream.graph_changes import GraphRecord, rebuilds, shard_key
from notifier.domain.users.account_preferences import NOTHING_SAID, Overall, OverallWord
from notifier.domain.users.import_rows import PreferenceRow, as_if_said, as_if_said_of_everything
from notifier.domain.users.subject_preferences import ALWAYS, Volume, Want, Word
from notifier.ports.clock import Clock
from notifier.ports.directory import Directory
from notifier.ports.event_log import EventLog, Record
from notifier.ports.imports import Batch
from notifier.ports.user_preferences import Overalls, Wants

T = TypeVar("T")

AT_ONCE = 4_096
"""Words that are written together: the store lets others in behind them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    directory: Directory
    wants: Wants
    overalls: Overalls
    log: EventLog
    clock: Clock

    def read(self, rows: Batch[PreferenceRow]) -> Keys:
        """What each row says stands, unless its person has said anything of that. Accounts that were never heard of are
        made known by it."""
        names = dict.fromkeys(chain.from_iterable((row.user, row.account) for row in rows.rows))
        members = self.directory.number([name for name in names if name is not None])
        words = [word for row in rows.rows if (word := row.word(members[row.user]))]
        overalls = [said for row in rows.rows if (said := row.overall(members[row.user]))]
        # A crash between look and write comes again to the same look; behind the write nothing is moved a second time.
        for some in _few(words):
            self.wants.write(self._said(some))
        for more in _few(overalls):
            self.overalls.write(self._said_of_everything(more))
        of_accounts = ((members[word.subject.owner], shard_of(word.member)) for word in words)
        return touched(chain(of_accounts, ((EVERYBODY, shard_of(word.member)) for word in overalls)))

    def _said(self, words: Sequence[Word]) -> Sequence[Word]:
        overalls = self.overalls.standing({word.member for word in words if word.volume})
        digests = [word for word in words if Volume.DIGEST in (word.volume, _of(overalls, word.member).volume)]
        before = {(w.subject, w.member): Want(subject=w.subject, member=w.member, at=ALWAYS) for w in digests}
        before |= self.wants.standing(before)
        now = self.clock.now()
        return [
            as_if_said(word, before[pair], _of(overalls, word.member), now)
            if (pair := (word.subject, word.member)) in before
            else word
            for word in words
        ]

    def _said_of_everything(self, words: Sequence[OverallWord]) -> Sequence[OverallWord]:
        before, now = self.overalls.standing({word.member for word in words if word.volume}), self.clock.now()
        return [as_if_said_of_everything(word, _of(before, word.member), now) for word in words]

    def steps(self, keys: Keys) -> Iterable[Callable[[], None]]:
        """Behind the rows: the indexer, who makes the bitmaps by them, finds them."""
        return (partial(self._ask, some) for some in by_account(keys))

    def _ask(self, shards: Mapping[Member, Sequence[int]]) -> None:
        names = self.directory.users([of for of in shards if of != EVERYBODY])
        wanted = [rebuild for of, user in names.items() for rebuild in rebuilds(user, shards[of], wanted=True)]
        asked = [(rebuild.followed, GraphRecord(rebuild=rebuild)) for rebuild in wanted]
        everybody = [(shard_key(s), GraphRecord(everybody=s, imported=True)) for s in shards.get(EVERYBODY, ())]
        records = [Record(stream=topics.FOLLOWS, key=key, value=pack(one)) for key, one in (*asked, *everybody)]
        self.log.append(records)


def _of(overalls: Mapping[Member, Overall], member: Member) -> Overall:
    return overalls.get(member, NOTHING_SAID)


def _few(words: Sequence[T]) -> Iterable[Sequence[T]]:
    return (words[first : first + AT_ONCE] for first in range(0, len(words), AT_ONCE))
