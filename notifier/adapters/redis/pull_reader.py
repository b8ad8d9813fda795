"""The pull index in Redis, as its readers know it: one round trip for all that a person follows."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import inf, isinf
from operator import itemgetter
from struct import unpack
from zlib import crc32

from notifier.adapters.redis.calls import Command, ask_async, discard
from notifier.adapters.redis.connect import AsyncClient
from notifier.adapters.redis.keys import KeyKind, unwrap_fields
from notifier.domain.ids import BurstKey, Subject
from notifier.ports.coordination import Clock
from notifier.ports.inbox import InboxPosition
from notifier.ports.pull_index import FRESH_FOR, Pulled, SubjectList, SubjectLists

# How the pull index lies in Redis: subjects are spread over parts, and a part is one hash.
#
# A part holds a packed list for each of its subjects and, beside them, what makes them proof: the epoch, the moment
# since when the part is complete, and the moment at which it was last compared with the store. One hash can't be half
# emptied, so whatever wipes the lists wipes the proof with them, and one HMGET is a consistent look. The part's
# number is the hash tag: a cluster spreads the parts over its nodes. Every field has a checksum in front, by which it
# is told from garbage.

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
    return KeyKind.PULL.key(f"{{{part}}}")


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
class StoredSubjectList:
    """A subject's list: bursts `first`, `first + 1` and so on, and since when there are no others."""

    since: float
    """Infinite while the list proves nothing."""
    first: int
    opened: tuple[float, ...]


def read_list(packed: bytes) -> StoredSubjectList:
    since, first, *opened = unpack(f"<{len(packed) // 8}d", packed)
    return StoredSubjectList(since, int(first), tuple(opened))


def fresh(as_of: bytes | None, now: datetime) -> bool:
    """A comparison of the future is as good as none: the clock was set back, and nobody knows how old it is."""
    return as_of is not None and milliseconds(now - FRESH_FOR) <= float(as_of) <= milliseconds(now)


def proven_since(proof: bytes | None) -> float:
    """What a part proves of a subject that has no list."""
    return inf if proof is None else float(proof)


MOST = 512
"""Places in one answer: dozens of pages. Who follows the busiest hundreds would otherwise get tens of thousands."""

Fields = Mapping[str, bytes | None]
Look = Mapping[Subject, StoredSubjectList | float]
"""A subject's list, or without one the moment since when its part is complete."""


class RedisPullReader:
    def __init__(self, client: AsyncClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def subject_lists(self, subjects: Collection[Subject]) -> SubjectLists | None:
        parts, read = await self._read(subjects)
        if not read or not all(fresh(part[AS_OF], self._clock.now()) for part in read.values()):
            return None
        found = {subject: _list(subject, _look(read[part], subject)) for part in parts for subject in parts[part]}
        return SubjectLists(
            lists={subject: one for subject, one in found.items() if one is not None},
            as_of=moment(min(float(part[AS_OF] or 0) for part in read.values())),
        )

    async def _read(
        self, subjects: Collection[Subject]
    ) -> tuple[Mapping[int, Sequence[Subject]], Mapping[int, Fields] | None]:
        """The fields of each part; None where garbage was found in any."""
        parts = by_part(subjects)
        fields = {part: [AS_OF, SINCE, *map(str, found)] for part, found in parts.items()}
        answers = await ask_async(self._client, [Command("hmget", key(part), (of,)) for part, of in fields.items()])
        held = {part: dict(zip(fields[part], answer, strict=True)) for part, answer in zip(parts, answers, strict=True)}
        read = {part: unwrap_fields(key(part), answer) for part, answer in held.items()}
        if garbled := [discard(key(part), garbage) for part, (_, garbage) in read.items() if garbage]:
            # A part with garbage proves nothing; once it is gone, the next rebuild fills it again.
            await ask_async(self._client, garbled)
            return parts, None
        return parts, {part: held for part, (held, _) in read.items()}

    async def news(self, subjects: Collection[Subject]) -> Pulled:
        parts, read = await self._read(subjects)
        if read is None:
            return Pulled(places=(), complete_since=None)
        now = self._clock.now()
        if not all(fresh(part[AS_OF], now) for part in read.values()):
            return Pulled(places=(), complete_since=None)
        pulled = _proven({subject: _look(read[part], subject) for part in parts for subject in parts[part]})
        compared = min((float(part[AS_OF] or 0) for part in read.values()), default=None)
        return pulled if compared is None else replace(pulled, as_of=moment(compared))


def _look(part: Fields, subject: Subject) -> StoredSubjectList | float:
    packed = part[str(subject)]
    return proven_since(part[SINCE]) if packed is None else read_list(packed)


def _list(subject: Subject, found: StoredSubjectList | float) -> SubjectList | None:
    since = found.since if isinstance(found, StoredSubjectList) else found
    if isinf(since):
        return None
    opened = enumerate(found.opened, start=found.first) if isinstance(found, StoredSubjectList) else ()
    places = [(moment(at), BurstKey(subject, seq)) for seq, at in opened if at >= since]
    return SubjectList(complete_since=moment(since), places=places[::-1])


def _proven(look: Look) -> Pulled:
    """Complete since the newest moment that any of the subjects asks for: older places are left to the store."""
    since = max(
        (found.since if isinstance(found, StoredSubjectList) else found for found in look.values()), default=0.0
    )
    if isinf(since):
        return Pulled(places=(), complete_since=None)
    # By time alone: comparing the keys of thousands costs more than all the rest.
    newest = sorted(_opened(look, since), key=itemgetter(0), reverse=True)
    if len(newest) > MOST:
        since = newest[MOST][0] + 1
    places = [
        InboxPosition(moment(opened), BurstKey(subject, seq))
        for opened, subject, seq in newest[:MOST]
        if opened >= since
    ]
    return Pulled(places=tuple(sorted(places, reverse=True)), complete_since=moment(since))


def _opened(look: Look, since: float) -> Iterator[tuple[float, Subject, int]]:
    for subject, found in look.items():
        if isinstance(found, StoredSubjectList) and max(found.opened) >= since:
            for seq, opened in enumerate(found.opened, start=found.first):
                if opened >= since:
                    yield opened, subject, seq
