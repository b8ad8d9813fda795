"""Read side of the pull index: one round trip for all subjects of a user."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import inf, isinf
from operator import itemgetter
from struct import unpack
from zlib import crc32

from notifier.adapters.redis.calls import Command, discard, run_calls_async
from notifier.adapters.redis.connect import AsyncClient
from notifier.adapters.redis.keys import KeyKind, unwrap_fields
from notifier.domain.ids import BurstKey, Subject
from notifier.ports.coordination import Clock
from notifier.ports.inbox import InboxPosition
from notifier.ports.pull_index import MAX_COMPARISON_AGE, PulledPositions, SubjectList, SubjectLists

# Layout of the pull index in Redis: subjects are spread over parts, and each part is one hash.
#
# A part holds one packed list per subject, and the proof that the lists are complete. The proof has three fields: the
# epoch, the time since when the part is complete, and the time of its last comparison with the store. A hash cannot
# be half emptied, so any loss of the lists also loses the proof, and one HMGET reads a consistent snapshot. The
# part's number is the hash tag, so a cluster spreads the parts over its nodes. A checksum in front of every field
# distinguishes it from garbage.

PARTS = 32
"""Number of parts. A reader with hundreds of follows sends at most this many commands, in one round trip."""

KEPT = 64
"""Bursts in a list.

They cover at least two days of a subject that spends its whole budget of 30 fan-outs a day, and take 536 bytes.
"""

EPOCH = "epoch"
"""Field of the nonce planted in every part before a rebuild. If it is absent or changed, data was lost since then."""

SINCE = "since"
"""Field of the time, in milliseconds, since when the part is complete for all subjects, with a list or without."""

AS_OF = "as_of"
"""Field of the time, in milliseconds, of the last comparison: no burst in the store at that time was missing.

A full server that refuses every write still deletes this field, which invalidates the part until the next comparison.
"""

BEGINNING_OF_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def key(part: int) -> str:
    return KeyKind.PULL_INDEX.key(f"{{{part}}}")


def part_of(subject: Subject) -> int:
    return crc32(str(subject).encode()) % PARTS


def by_part(subjects: Iterable[Subject]) -> Mapping[int, list[Subject]]:
    parts: dict[int, list[Subject]] = defaultdict(list)
    for subject in dict.fromkeys(subjects):
        parts[part_of(subject)].append(subject)
    return parts


def milliseconds(moment: datetime) -> int:
    return (moment - BEGINNING_OF_TIME) // _MILLISECOND


def moment(milliseconds: float) -> datetime:
    return BEGINNING_OF_TIME + timedelta(milliseconds=milliseconds)


@dataclass(frozen=True, slots=True)
class StoredSubjectList:
    """List of a subject's bursts `first`, `first + 1` and so on. It is complete since `since`."""

    since: float
    """Time in milliseconds, infinite while the list proves nothing."""
    first: int
    opened: tuple[float, ...]


def read_list(packed: bytes) -> StoredSubjectList:
    since, first, *opened = unpack(f"<{len(packed) // 8}d", packed)
    return StoredSubjectList(since, int(first), tuple(opened))


def fresh(as_of: bytes | None, now: datetime) -> bool:
    """Return whether the last comparison is recent.

    A time in the future does not count: the clock was set back, so the age of the comparison is unknown.
    """
    return as_of is not None and milliseconds(now - MAX_COMPARISON_AGE) <= float(as_of) <= milliseconds(now)


def proven_since(proof: bytes | None) -> float:
    """Return the time since when the part proves that a subject without a list has no bursts."""
    return inf if proof is None else float(proof)


MAX_PULLED = 512
"""Positions in one answer: dozens of pages.

Without a limit, a user who follows the hundreds of busiest subjects would get tens of thousands.
"""

Fields = Mapping[str, bytes | None]
ListsRead = Mapping[Subject, StoredSubjectList | float]
"""List of each subject, or, without a list, the time since when its part is complete."""


class RedisPullReader:
    def __init__(self, client: AsyncClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def subject_lists(self, subjects: Collection[Subject]) -> SubjectLists | None:
        parts, read = await self._read(subjects)
        if not read or not all(fresh(part[AS_OF], self._clock.now()) for part in read.values()):
            return None
        lists = {
            subject: _list(subject, _list_or_proof(read[part], subject)) for part in parts for subject in parts[part]
        }
        return SubjectLists(
            lists={subject: subject_list for subject, subject_list in lists.items() if subject_list is not None},
            as_of=moment(min(float(part[AS_OF] or 0) for part in read.values())),
        )

    async def _read(
        self, subjects: Collection[Subject]
    ) -> tuple[Mapping[int, Sequence[Subject]], Mapping[int, Fields] | None]:
        """Return the subjects and the fields of each part; None instead of the fields if any contains garbage."""
        parts = by_part(subjects)
        fields = {part: [AS_OF, SINCE, *map(str, members)] for part, members in parts.items()}
        answers = await run_calls_async(
            self._client, [Command("hmget", key(part), (names,)) for part, names in fields.items()]
        )
        held = {part: dict(zip(fields[part], answer, strict=True)) for part, answer in zip(parts, answers, strict=True)}
        read = {part: unwrap_fields(key(part), answer) for part, answer in held.items()}
        if garbled := [discard(key(part), garbage) for part, (_, garbage) in read.items() if garbage]:
            # A part with garbage proves nothing. Delete it, so that the next rebuild fills it again.
            await run_calls_async(self._client, garbled)
            return parts, None
        return parts, {part: held for part, (held, _) in read.items()}

    async def read_newest(self, subjects: Collection[Subject]) -> PulledPositions:
        parts, read = await self._read(subjects)
        if read is None:
            return PulledPositions(positions=(), complete_since=None)
        now = self._clock.now()
        if not all(fresh(part[AS_OF], now) for part in read.values()):
            return PulledPositions(positions=(), complete_since=None)
        pulled = _merged({subject: _list_or_proof(read[part], subject) for part in parts for subject in parts[part]})
        compared = min((float(part[AS_OF] or 0) for part in read.values()), default=None)
        return pulled if compared is None else replace(pulled, as_of=moment(compared))


def _list_or_proof(part: Fields, subject: Subject) -> StoredSubjectList | float:
    packed = part[str(subject)]
    return proven_since(part[SINCE]) if packed is None else read_list(packed)


def _list(subject: Subject, stored: StoredSubjectList | float) -> SubjectList | None:
    since = stored.since if isinstance(stored, StoredSubjectList) else stored
    if isinf(since):
        return None
    opened = enumerate(stored.opened, start=stored.first) if isinstance(stored, StoredSubjectList) else ()
    places = [(moment(at), BurstKey(subject, seq)) for seq, at in opened if at >= since]
    return SubjectList(complete_since=moment(since), positions=places[::-1])


def _merged(lists: ListsRead) -> PulledPositions:
    """Merge the lists into one, complete since the latest `since` of all subjects. The store has older positions."""
    since = max(
        (entry.since if isinstance(entry, StoredSubjectList) else entry for entry in lists.values()), default=0.0
    )
    if isinf(since):
        return PulledPositions(positions=(), complete_since=None)
    # Sort by time only: comparing thousands of keys costs more than all other steps.
    newest = sorted(_opened(lists, since), key=itemgetter(0), reverse=True)
    if len(newest) > MAX_PULLED:
        since = newest[MAX_PULLED][0] + 1
    places = [
        InboxPosition(moment(opened), BurstKey(subject, seq))
        for opened, subject, seq in newest[:MAX_PULLED]
        if opened >= since
    ]
    return PulledPositions(positions=tuple(sorted(places, reverse=True)), complete_since=moment(since))


def _opened(lists: ListsRead, since: float) -> Iterator[tuple[float, Subject, int]]:
    for subject, entry in lists.items():
        if isinstance(entry, StoredSubjectList) and max(entry.opened) >= since:
            for seq, opened in enumerate(entry.opened, start=entry.first):
                if opened >= since:
                    yield opened, subject, seq
