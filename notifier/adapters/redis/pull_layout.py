"""How the pull index lies in Redis: subjects are spread over parts, and a part is one hash.

A part holds a packed list for each of its subjects and, beside them, what makes them proof: the epoch, the moment since
when the part is complete, and the moment at which it was last compared with the store. One hash can't be half emptied,
so whatever wipes the lists wipes the proof with them, and one HMGET is a consistent look. The part's number is the hash
tag: a cluster spreads the parts over its nodes. Every field has a checksum in front, by which it is told from garbage.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import inf
from struct import unpack
from zlib import crc32

from notifier.adapters.redis.keys import Kind
from notifier.domain.ids import Subject
from notifier.ports.pull_index import FRESH_FOR

PARTS = 32
"""A reader with hundreds of follows sends so many commands at most, all in one round trip."""

KEPT = 64
"""Bursts in a list: at least two days of a subject that spends its whole budget of 30 fan-outs a day; 536 bytes."""

EPOCH = "epoch"
"""A nonce planted in every part before a rebuild: where it is gone or another, something was lost meanwhile."""

SINCE = "since"
"""The moment, in milliseconds, from which on the part lists every burst of every subject, listed or not."""

AS_OF = "as_of"
"""The moment, in milliseconds, of whose bursts in the store none was missing. A field that can be deleted when the
server is full and refuses every write: that ends all of the part's claims, until it is compared again."""

FOR_EVER = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def key(part: int) -> str:
    return Kind.PULL.key(f"{{{part}}}")


def part_of(subject: Subject) -> int:
    return crc32(str(subject).encode()) % PARTS


def by_part(subjects: Iterable[Subject]) -> Mapping[int, list[Subject]]:
    found: dict[int, list[Subject]] = defaultdict(list)
    for subject in dict.fromkeys(subjects):
        found[part_of(subject)].append(subject)
    return found


def milliseconds(moment: datetime) -> int:
    return (moment - FOR_EVER) // _MILLISECOND


def moment(milliseconds: float) -> datetime:
    return FOR_EVER + timedelta(milliseconds=milliseconds)


@dataclass(frozen=True, slots=True)
class Listed:
    """A subject's list: bursts `first`, `first + 1` and so on, and since when there are no others."""

    since: float
    """Infinite while the list proves nothing."""
    first: int
    opened: tuple[float, ...]


def read_list(packed: bytes) -> Listed:
    since, first, *opened = unpack(f"<{len(packed) // 8}d", packed)
    return Listed(since, int(first), tuple(opened))


def fresh(as_of: bytes | None, now: datetime) -> bool:
    """A comparison of the future is as good as none: the clock was set back, and nobody knows how old it is."""
    return as_of is not None and milliseconds(now - FRESH_FOR) <= float(as_of) <= milliseconds(now)


def proven_since(proof: bytes | None) -> float:
    """What a part proves of a subject that has no list."""
    return inf if proof is None else float(proof)
