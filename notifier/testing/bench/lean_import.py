"""The leanest import of the same tables: everything in memory, one transaction, and gone when it is killed."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from notifier.adapters.sqlite.files import Files
from notifier.codec.timestamps import to_ms
from notifier.domain.audience.bitmap import BLOCK_MEMBERS, BLOCK_SLOT, SHARD_MEMBERS, encode, from_offsets, shard_of
from notifier.domain.audience.follow_import import HALF, Crowds, Keys, cut, keyed
from notifier.domain.audience.tiers import SetKind
from notifier.domain.ids import Kind, Member, Subject, UserId
from notifier.domain.users.subject_preferences import ALWAYS

_USER = "INSERT INTO users (user, member, account, deleted) VALUES (?, ?, x'', 0)"
_MEMBER = "INSERT INTO members (member, user) VALUES (?, ?)"
_FOLLOW = "INSERT INTO follows (block, slot, subject, visible_from, members) VALUES (?, ?, ?, ?, ?)"
_SET = "INSERT INTO member_sets (owner, shard, kind, blob, stamp) VALUES (?, ?, ?, ?, 1)"
_HEAD = "INSERT INTO set_heads (subject, total, counts, stamp) VALUES (?, ?, ?, 1)"


def lean_import(files: Files, file: Path) -> None:
    """Of a file of names, into an empty store."""
    table = pq.read_table(file, columns=["followed", "follower"])
    followed, followers = (table.column(name).to_pylist() for name in ("followed", "follower"))
    members = {UserId(user): Member(n) for n, user in enumerate(dict.fromkeys((*followers, *followed)))}
    names = {member: user for user, member in members.items()}
    keys = keyed((members[user] for user in followed), (members[user] for user in followers))
    with files.core.write() as c:
        c.executemany(_USER, members.items())
        c.executemany(_MEMBER, names.items())
        for crowds in cut(keys):
            c.executemany(_FOLLOW, _follows(crowds, names))
        for subject, shards in _shards(keys, names).items():
            c.executemany(
                _SET, [(subject, s, str(SetKind.FOLLOWERS), encode(from_offsets(o))) for s, o in shards.items()]
            )
            counts = np.zeros(max(shards) + 1, dtype=np.uint32)
            counts[[*shards]] = [len(some) for some in shards.values()]
            c.execute(_HEAD, (subject, int(counts.sum()), counts.tobytes()))


def _follows(crowds: Crowds, names: Mapping[Member, UserId]) -> list[tuple[object, ...]]:
    since = to_ms(ALWAYS)
    shared = [(block, BLOCK_SLOT, _subject(names[of]), since, bits) for of, block, bits in crowds.shared]
    own = [(m // BLOCK_MEMBERS, m % BLOCK_MEMBERS, _subject(names[of]), since, None) for of, m in crowds.own]
    return [*shared, *own]


def _shards(keys: Keys, names: Mapping[Member, UserId]) -> Mapping[str, Mapping[int, list[int]]]:
    found: dict[str, dict[int, list[int]]] = defaultdict(dict)
    places = keys // np.uint64(SHARD_MEMBERS)
    for some in np.split(keys, np.flatnonzero(np.diff(places)) + 1):
        of = names[Member(int(some[0]) >> HALF)]
        offsets = (some % np.uint64(SHARD_MEMBERS)).tolist()
        found[_subject(of)][shard_of(Member(int(some[0]) & (1 << HALF) - 1))] = offsets
    return found


def _subject(user: UserId) -> str:
    return str(Subject(Kind.MENTION, user))
