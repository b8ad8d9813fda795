"""Follower import: writes follow rows, and requests bitmaps from the graph indexer."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from notifier import topics
from notifier.codec import pack
from notifier.domain.audience.follows import BlockFollows, Follow
from notifier.domain.audience.import_keys_and_follow_rows import (
    FollowRowChunk,
    ImportKeys,
    MemberArray,
    NumericIds,
    ResolvedIds,
    cut_follow_rows,
    edge_keys,
    edge_keys_of_arrays,
)
from notifier.domain.audience.user_ids_to_members import IdRange
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.upstream.graph_stream_records import GraphRecord, Rebuild, rebuild_requests
from notifier.domain.users.import_rows import IMPORT_SEQUENCE
from notifier.ports.audience import Follows
from notifier.ports.event_log_and_dead_letters import EventLog, Record
from notifier.ports.import_batches_and_key_sort import FollowEdges, NumericIdFollowEdges
from notifier.ports.user_directory_and_account_flags import Directory


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerImport:
    directory: Directory
    follows: Follows
    log: EventLog
    visible_from: datetime
    """Imported followers see bursts that opened at or after this time."""
    id_ranges: list[IdRange] = field(default_factory=list)
    """Cached entries of the directory that map ranges of integer ids to members."""

    def read(self, rows: FollowEdges | NumericIdFollowEdges) -> ImportKeys:
        """Return the edges as sorted keys. Unknown accounts get a member number."""
        if isinstance(rows, NumericIdFollowEdges):
            return edge_keys_of_arrays(self._resolve(rows.followed), self._resolve(rows.followers))
        members = self.directory.assign_numbers(dict.fromkeys((*rows.followers, *rows.followed)))
        return edge_keys((members[user] for user in rows.followed), (members[user] for user in rows.followers))

    def steps(self, keys: ImportKeys) -> Iterable[Callable[[], None]]:
        """Yield steps. Each writes a chunk of follow rows, and then requests their bitmaps from the graph indexer."""
        return (partial(self._write, chunk) for chunk in cut_follow_rows(keys))

    def _resolve(self, ids: NumericIds) -> MemberArray:
        resolved = ResolvedIds(ids)
        for id_range in self.id_ranges:
            resolved.resolve_range(id_range)
        while unresolved := resolved.unresolved():
            new_range = self._look_up_range(unresolved[0]) or self._look_up_range(unresolved[-1])
            if not new_range:
                break
            self.id_ranges.append(new_range)
            resolved.resolve_range(new_range)
        if unresolved:
            users = {id: UserId(str(id)) for id in unresolved}
            members = self.directory.assign_numbers(users.values())
            resolved.resolve_remaining({id: members[user] for id, user in users.items()})
        return resolved.members

    def _look_up_range(self, id: int) -> IdRange | None:
        return self.directory.id_range_of(UserId(str(id)))

    def _write(self, chunk: FollowRowChunk) -> None:
        shards_by_followed = chunk.shards_by_followed()
        users = self.directory.users(shards_by_followed)
        self._write_block_rows(chunk, users)
        self._write_member_rows((users[followed], follower) for followed, follower in chunk.member_rows)
        # Request the bitmaps after writing the rows, because the indexer reads them. After a crash before this line,
        # the whole chunk is repeated.
        self.log.append(
            [
                _record(rebuild)
                for followed, shards in shards_by_followed.items()
                for rebuild in rebuild_requests(users[followed], shards, has_imported_follows=True)
            ]
        )

    def _write_block_rows(self, chunk: FollowRowChunk, users: Mapping[Member, UserId]) -> None:
        """Store the block rows. A block's existing row stays, and followers that it lacks get member rows."""
        rows = [
            BlockFollows(
                subject=_mention_subject(users[followed]), block=block, visible_from=self.visible_from, members=members
            )
            for followed, block, members in chunk.block_rows
        ]
        existing_rows = self.follows.insert_blocks(rows)
        not_inserted = [row for row in rows if row.key in existing_rows]
        self._write_member_rows(
            (row.subject.owner, member)
            for row in not_inserted
            for member in row.members_missing_in(existing_rows[row.key])
        )

    def _write_member_rows(self, pairs: Iterable[tuple[UserId, Member]]) -> None:
        self.follows.write(
            [
                Follow(
                    subject=_mention_subject(followed),
                    member=member,
                    visible_from=self.visible_from,
                    sequence=IMPORT_SEQUENCE,
                )
                for followed, member in pairs
            ]
        )


def _mention_subject(user: UserId) -> Subject:
    return Subject(Kind.MENTION, user)


def _record(rebuild: Rebuild) -> Record:
    return Record(stream=topics.FOLLOWS, key=rebuild.followed, value=pack(GraphRecord(rebuild=rebuild)))
