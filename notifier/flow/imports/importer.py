"""Imports of accounts and preferences, and the engine that makes every import resumable.

An import first reads all rows and stores keys of the remaining work in sorted runs. Then it processes the sorted keys
chunk by chunk. After an interruption it resumes: the runs record how far the source was read, and a mark how far the
keys were processed. Every step is idempotent.
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
    """Kind of an import. Both methods are idempotent and may be repeated after an interruption."""

    def read(self, rows: S_contra) -> Keys:
        """Process the rows; return keys of the work that remains until everything has been read."""
        ...

    def steps(self, keys: Keys) -> Iterable[Callable[[], None]]:
        """Yield steps for some of the remaining work. The keys are sorted, and complete for each block."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Import(Generic[S]):
    matter: Matter[S]
    edges: Edges
    patience: Callable[[Callable[[], None]], None] | None = None
    """Retries a step during an outage. Without it an outage ends the import."""

    def read(self, source: Iterable[S], advance: Advance = lambda _: None) -> None:
        """Read the source, which continues after the rows that were read before."""
        for rows in source:
            self._attempt(partial(self._read, rows))
            advance(len(rows))

    def write(self, advance: Advance = lambda _: None) -> None:
        """Write everything that was read to its final place, or request it from the writer of the bitmaps."""
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
        # Store the run after the effects: after a crash in between these rows are read again.
        self.edges.add(self.matter.read(rows), rows.read)


# Account import: writes numbers, flags and entries while reading, and then requests the bitmaps of VIPs.

ACCOUNTS_AT_ONCE = 4_096
"""Entries compared with the rows at once. Other writers get their turn between these transactions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountImport:
    directory: Directory
    flags: Flags
    log: EventLog
    ranges: bool
    """Store consecutive IDs as one range entry. Only valid if no other process numbers any of them."""

    def read(self, rows: ImportBatch[AccountRow]) -> Keys:
        """Write the number, flags and entry of each row's account."""
        members = self._numbers(dict.fromkeys(row.user for row in rows.rows))
        self.flags.write(flag for row in rows.rows for flag in row.flagged(members[row.user]))
        users = [row.user for row in rows.rows if not row.said.keys().isdisjoint(OF_ENTRIES)]
        for first in range(0, len(users), ACCOUNTS_AT_ONCE):
            enter(self.directory, self.flags, {user: members[user] for user in users[first : first + ACCOUNTS_AT_ONCE]})
        return touched((EVERYBODY, shard_of(members[row.user])) for row in rows.rows if Flag.VIP in row.said)

    def steps(self, keys: Keys) -> Iterable[Callable[[], None]]:
        """Yield steps that request the bitmaps. The rows are complete before, so the account indexer finds them."""
        return (partial(self._ask, shards[EVERYBODY]) for shards in by_account(keys))

    def _ask(self, shards: Iterable[int]) -> None:
        asked = [AccountRecord(anew=chunk, imported=True) for chunk in few(shards)]
        self.log.append(
            [Record(stream=topics.USERS, key=shard_key(record.anew[0]), value=pack(record)) for record in asked]
        )

    def _numbers(self, users: Collection[UserId]) -> Mapping[UserId, Member]:
        if self.ranges:
            known = self.directory.accounts(users)
            # After a crash following the lease, its numbers remain unused.
            for prefix, first, count in successive((user for user in users if user not in known), LEASED):
                at = self.directory.lease(count)
                self.directory.enrol_range(IdRange(prefix=prefix, first=first, count=count, member=at))
        return self.directory.number(users)


# Preference import: writes the preferences while reading, and then requests their bitmaps.

T = TypeVar("T")

PREFERENCES_AT_ONCE = 4_096
"""Changes written at once. Other writers get their turn between the batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceImport:
    directory: Directory
    wants: Wants
    overalls: Overalls
    log: EventLog
    clock: Clock

    def read(self, rows: ImportBatch[PreferenceRow]) -> Keys:
        """Store each row's preference, unless the user has set that preference.

        Unknown accounts are added to the directory.
        """
        names = dict.fromkeys(chain.from_iterable((row.user, row.account) for row in rows.rows))
        members = self.directory.number([name for name in names if name is not None])
        changes = [change for row in rows.rows if (change := row.word(members[row.user]))]
        overalls = [account_change for row in rows.rows if (account_change := row.overall(members[row.user]))]
        # After a crash before the write, the retry reads the same state; after the write, it moves no time again.
        for batch in _few(changes):
            self.wants.write(self._said(batch))
        for account_batch in _few(overalls):
            self.overalls.write(self._said_of_everything(account_batch))
        of_accounts = ((members[change.subject.owner], shard_of(change.member)) for change in changes)
        return touched(chain(of_accounts, ((EVERYBODY, shard_of(change.member)) for change in overalls)))

    def _said(self, words: Sequence[Word]) -> Sequence[Word]:
        overalls = self.overalls.standing({change.member for change in words if change.volume})
        digests = [change for change in words if Volume.DIGEST in (change.volume, _of(overalls, change.member).volume)]
        before = {(w.subject, w.member): Want(subject=w.subject, member=w.member, at=ALWAYS) for w in digests}
        before |= self.wants.standing(before)
        now = self.clock.now()
        return [
            as_if_said(change, before[pair], _of(overalls, change.member), now)
            if (pair := (change.subject, change.member)) in before
            else change
            for change in words
        ]

    def _said_of_everything(self, words: Sequence[OverallWord]) -> Sequence[OverallWord]:
        before, now = self.overalls.standing({change.member for change in words if change.volume}), self.clock.now()
        return [as_if_said_of_everything(change, _of(before, change.member), now) for change in words]

    def steps(self, keys: Keys) -> Iterable[Callable[[], None]]:
        """Yield steps that request the bitmaps. The rows are complete before, so the graph indexer finds them."""
        return (partial(self._ask, shards) for shards in by_account(keys))

    def _ask(self, shards: Mapping[Member, Sequence[int]]) -> None:
        names = self.directory.users([account for account in shards if account != EVERYBODY])
        wanted = [
            rebuild for account, user in names.items() for rebuild in rebuilds(user, shards[account], wanted=True)
        ]
        asked = [(rebuild.followed, GraphRecord(rebuild=rebuild)) for rebuild in wanted]
        everybody = [(shard_key(s), GraphRecord(everybody=s, imported=True)) for s in shards.get(EVERYBODY, ())]
        records = [Record(stream=topics.FOLLOWS, key=key, value=pack(record)) for key, record in (*asked, *everybody)]
        self.log.append(records)


def _of(overalls: Mapping[Member, Overall], member: Member) -> Overall:
    return overalls.get(member, NOTHING_SAID)


def _few(words: Sequence[T]) -> Iterable[Sequence[T]]:
    return (words[first : first + PREFERENCES_AT_ONCE] for first in range(0, len(words), PREFERENCES_AT_ONCE))
