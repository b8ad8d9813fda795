"""An import: rows are read and kept in sorted runs of numbers, and then what they leave to be done is done, by pieces.

Cut off anywhere it goes on where it was: what was read is known by the runs, what was written by the line's mark, and
whatever is done twice writes the same.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Generic, Protocol, TypeVar

from notifier import topics
from notifier.codec import pack
from notifier.domain.audience.account_flags import AccountRecord, Flag
from notifier.domain.audience.bitmap import shard_of
from notifier.domain.audience.follow_import import EVERYBODY, Keys, by_account, touched
from notifier.domain.audience.id_ranges import IdRange, successive
from notifier.domain.ids import Member, UserId
from notifier.domain.upstream.graph_changes import GraphRecord, few, rebuilds, shard_key
from notifier.domain.users.account_preferences import NOTHING_SAID, Overall, OverallWord
from notifier.domain.users.import_rows import AccountRow, PreferenceRow, as_if_said, as_if_said_of_everything
from notifier.domain.users.subject_preferences import ALWAYS, Volume, Want, Word
from notifier.flow.accounts.account_indexer import OF_ENTRIES, enter
from notifier.ports.coordination import Clock
from notifier.ports.directory import LEASED, Directory, Flags
from notifier.ports.event_log import EventLog, Record
from notifier.ports.imports import Edges, ImportBatch, Some
from notifier.ports.users import Overalls, Wants

Advance = Callable[[int], object]
S = TypeVar("S", bound=Some)
S_contra = TypeVar("S_contra", bound=Some, contravariant=True)


class Matter(Protocol[S_contra]):
    """What an import is of. Either is done again when it was cut off, and does the same."""

    def read(self, rows: S_contra) -> Keys:
        """What of these is left to be written when everything is read, as numbers; what isn't is done."""
        ...

    def steps(self, keys: Keys) -> Iterable[Callable[[], None]]:
        """Which write some of what was left, that is sorted and of which no block is cut off."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Import(Generic[S]):
    matter: Matter[S]
    edges: Edges
    patience: Callable[[Callable[[], None]], None] | None = None
    """Retries a step during an outage. Without it an outage ends the import."""

    def read(self, source: Iterable[S], advance: Advance = lambda _: None) -> None:
        """The source goes on behind what was read before."""
        for rows in source:
            self._attempt(partial(self._read, rows))
            advance(len(rows))

    def write(self, advance: Advance = lambda _: None) -> None:
        """Everything that was read is where it belongs when it returns, or the writer of its bitmaps is asked."""
        for keys, mark in self.edges.line():
            for step in self.matter.steps(keys):
                self._attempt(step)
            self.edges.take(mark)
            advance(len(keys))

    def _attempt(self, step: Callable[[], None]) -> None:
        if self.patience is None:
            step()
        else:
            self.patience(step)

    def _read(self, rows: S) -> None:
        # The run behind the effects: whoever dies in between reads these again.
        self.edges.add(self.matter.read(rows), rows.read)


# An import of accounts: numbers, flags and entries as they are read, and then the bitmaps of VIPs are asked for.

ACCOUNTS_AT_ONCE = 4_096
"""Entries that are compared with the rows: their transaction lets others in behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountImport:
    directory: Directory
    flags: Flags
    log: EventLog
    ranges: bool
    """Ids that follow one another get one entry, whatever their number. Nobody else gives any of them a number."""

    def read(self, rows: ImportBatch[AccountRow]) -> Keys:
        """Of each row the account has its number, its flags and its entry."""
        members = self._numbers(dict.fromkeys(row.user for row in rows.rows))
        self.flags.write(flag for row in rows.rows for flag in row.flagged(members[row.user]))
        said = [row.user for row in rows.rows if not row.said.keys().isdisjoint(OF_ENTRIES)]
        for first in range(0, len(said), ACCOUNTS_AT_ONCE):
            enter(self.directory, self.flags, {user: members[user] for user in said[first : first + ACCOUNTS_AT_ONCE]})
        return touched((EVERYBODY, shard_of(members[row.user])) for row in rows.rows if Flag.VIP in row.said)

    def steps(self, keys: Keys) -> Iterable[Callable[[], None]]:
        """Behind the rows: the registrar, who makes the bitmaps by them, finds them."""
        return (partial(self._ask, some[EVERYBODY]) for some in by_account(keys))

    def _ask(self, shards: Iterable[int]) -> None:
        asked = [AccountRecord(anew=some, imported=True) for some in few(shards)]
        self.log.append([Record(stream=topics.USERS, key=shard_key(one.anew[0]), value=pack(one)) for one in asked])

    def _numbers(self, users: Collection[UserId]) -> Mapping[UserId, Member]:
        if self.ranges:
            known = self.directory.accounts(users)
            # Cut off behind the lease, its numbers are nobody's.
            for prefix, first, count in successive((user for user in users if user not in known), LEASED):
                at = self.directory.lease(count)
                self.directory.enrol_range(IdRange(prefix=prefix, first=first, count=count, member=at))
        return self.directory.number(users)


# An import of preferences: words in their rows as they are read, and then the bitmaps of them are asked for.

T = TypeVar("T")

PREFERENCES_AT_ONCE = 4_096
"""Words that are written together: the store lets others in behind them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceImport:
    directory: Directory
    wants: Wants
    overalls: Overalls
    log: EventLog
    clock: Clock

    def read(self, rows: ImportBatch[PreferenceRow]) -> Keys:
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
    return (words[first : first + PREFERENCES_AT_ONCE] for first in range(0, len(words), PREFERENCES_AT_ONCE))
