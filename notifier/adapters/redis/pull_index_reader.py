"""Read side of the pull index in Redis."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import inf, isinf
from operator import itemgetter
from struct import unpack
from zlib import crc32

from notifier.adapters.redis.connect import AsyncClient
from notifier.adapters.redis.keys_checksums_lua_scripts import KeyKind, unwrap_fields
from notifier.adapters.redis.pipelined_calls import Command, discard_call, run_calls_async
from notifier.domain.ids import BurstKey, Subject
from notifier.ports.inbox import InboxPosition
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.pull_index import MAX_COMPARISON_AGE, NewestPositions, SubjectList, SubjectLists

# Layout of the pull index in Redis: subjects are spread over parts, and each part is one hash.
#
# A part holds packed lists of subjects, and the proof that the lists are complete: the fields NONCE, SINCE and AS_OF.
# Redis loses a hash only as a whole, so lists cannot be lost without the proof. One HMGET reads a consistent snapshot.
# The part's number is the hash tag: a cluster spreads the parts over its nodes.

PART_COUNT = 32
"""A read of any number of subjects sends at most this many commands."""

MAX_LIST_LENGTH = 64
"""Maximum number of bursts in a list. A full list takes 536 bytes.

The fan-out budget of a large subject allows 30 public fan-outs a day, so a full list normally covers two days.
"""

NONCE = "epoch"
"""Field with a random nonce. If the nonce is absent or has changed, the part has lost data, or had a gap."""

SINCE = "since"
"""Field with the time, in milliseconds, since when the part is complete, also for subjects without a list."""

AS_OF = "as_of"
"""Field with the time, in milliseconds, of the last comparison: at that time the part missed no burst of the store.

Deleting this field, which even a full server permits, invalidates the part until the next comparison.
"""

UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def part_key(part: int) -> str:
    return KeyKind.PULL_INDEX.key(f"{{{part}}}")


def part_of(subject: Subject) -> int:
    return crc32(str(subject).encode()) % PART_COUNT


def by_part(subjects: Iterable[Subject]) -> Mapping[int, list[Subject]]:
    subjects_by_part: dict[int, list[Subject]] = defaultdict(list)
    for subject in dict.fromkeys(subjects):
        subjects_by_part[part_of(subject)].append(subject)
    return subjects_by_part


def to_ms(time: datetime) -> int:
    return (time - UNIX_EPOCH) // _MILLISECOND


def from_ms(ms: float) -> datetime:
    return UNIX_EPOCH + timedelta(milliseconds=ms)


@dataclass(frozen=True, slots=True)
class StoredSubjectList:
    """Opening times of a subject's bursts with the numbers `first`, `first + 1` and so on."""

    since: float
    """Time since when the list is complete, in milliseconds; infinite while that is unknown."""
    first: int
    opening_times: tuple[float, ...]


def unpack_list(packed: bytes) -> StoredSubjectList:
    since, first, *opening_times = unpack(f"<{len(packed) // 8}d", packed)
    return StoredSubjectList(since, int(first), tuple(opening_times))


def is_fresh(as_of: bytes | None, now: datetime) -> bool:
    """Return whether the last comparison is recent.

    A time in the future is not recent: the clock was set back, so the age of the comparison is unknown.
    """
    return as_of is not None and to_ms(now - MAX_COMPARISON_AGE) <= float(as_of) <= to_ms(now)


def proven_since(part_since: bytes | None) -> float:
    """Return the time, in milliseconds, since when a subject without a list has no bursts; infinite if unknown."""
    return inf if part_since is None else float(part_since)


MAX_POSITIONS = 512
"""Enough for dozens of pages. A user who follows hundreds of busy subjects would get tens of thousands."""

Fields = Mapping[str, bytes | None]
"""Values of a part by field; None for an absent field."""
StoredLists = Mapping[Subject, StoredSubjectList | float]
"""List of each subject, or, for a subject without a list, the time in milliseconds since when its part is complete."""


class RedisPullReader:
    def __init__(self, client: AsyncClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def subject_lists(self, subjects: Collection[Subject]) -> SubjectLists | None:
        subjects_by_part, fields_by_part = await self._read(subjects)
        if not fields_by_part or not all(
            is_fresh(fields[AS_OF], self._clock.now()) for fields in fields_by_part.values()
        ):
            return None
        lists = {
            subject: _subject_list(subject, _list_or_since(fields_by_part[part], subject))
            for part, part_subjects in subjects_by_part.items()
            for subject in part_subjects
        }
        return SubjectLists(
            lists={subject: subject_list for subject, subject_list in lists.items() if subject_list is not None},
            as_of=from_ms(min(float(fields[AS_OF] or 0) for fields in fields_by_part.values())),
        )

    async def _read(
        self, subjects: Collection[Subject]
    ) -> tuple[Mapping[int, Sequence[Subject]], Mapping[int, Fields] | None]:
        """Return the subjects and the fields of each part. If any part has garbage, None replaces all fields."""
        subjects_by_part = by_part(subjects)
        names = {part: [AS_OF, SINCE, *map(str, part_subjects)] for part, part_subjects in subjects_by_part.items()}
        commands = [Command("hmget", part_key(part), (part_names,)) for part, part_names in names.items()]
        answers = await run_calls_async(self._client, commands)
        stored = {
            part: dict(zip(part_names, answer, strict=True))
            for (part, part_names), answer in zip(names.items(), answers, strict=True)
        }
        unwrapped = {part: unwrap_fields(part_key(part), answer) for part, answer in stored.items()}
        if discards := [discard_call(part_key(part), garbage) for part, (_, garbage) in unwrapped.items() if garbage]:
            # A part with garbage proves nothing. Delete the part, so that the next rebuild fills it again.
            await run_calls_async(self._client, discards)
            return subjects_by_part, None
        return subjects_by_part, {part: values for part, (values, _) in unwrapped.items()}

    async def read_newest(self, subjects: Collection[Subject]) -> NewestPositions:
        subjects_by_part, fields_by_part = await self._read(subjects)
        if fields_by_part is None:
            return NewestPositions(positions=(), complete_since=None)
        now = self._clock.now()
        if not all(is_fresh(fields[AS_OF], now) for fields in fields_by_part.values()):
            return NewestPositions(positions=(), complete_since=None)
        merged = _merge(
            {
                subject: _list_or_since(fields_by_part[part], subject)
                for part, part_subjects in subjects_by_part.items()
                for subject in part_subjects
            }
        )
        compared_at_ms = min((float(fields[AS_OF] or 0) for fields in fields_by_part.values()), default=None)
        return merged if compared_at_ms is None else replace(merged, as_of=from_ms(compared_at_ms))


def _list_or_since(fields: Fields, subject: Subject) -> StoredSubjectList | float:
    packed = fields[str(subject)]
    return proven_since(fields[SINCE]) if packed is None else unpack_list(packed)


def _subject_list(subject: Subject, stored: StoredSubjectList | float) -> SubjectList | None:
    since = stored.since if isinstance(stored, StoredSubjectList) else stored
    if isinf(since):
        return None
    numbered_times = (
        enumerate(stored.opening_times, start=stored.first) if isinstance(stored, StoredSubjectList) else ()
    )
    positions = [(from_ms(time), BurstKey(subject, seq)) for seq, time in numbered_times if time >= since]
    return SubjectList(complete_since=from_ms(since), positions=positions[::-1])


def _merge(lists: StoredLists) -> NewestPositions:
    """Merge the lists, and keep the newest MAX_POSITIONS.

    The result is complete since the latest `since` of the lists, or later if positions are left out.
    """
    since = max(
        (stored.since if isinstance(stored, StoredSubjectList) else stored for stored in lists.values()), default=0.0
    )
    if isinf(since):
        return NewestPositions(positions=(), complete_since=None)
    # Sort by time only: comparing thousands of keys costs more than all other steps.
    newest = sorted(_positions_since(lists, since), key=itemgetter(0), reverse=True)
    if len(newest) > MAX_POSITIONS:
        since = newest[MAX_POSITIONS][0] + 1  # later than the newest position that is left out
    positions = [
        InboxPosition(from_ms(opened_at), BurstKey(subject, seq))
        for opened_at, subject, seq in newest[:MAX_POSITIONS]
        if opened_at >= since
    ]
    return NewestPositions(positions=tuple(sorted(positions, reverse=True)), complete_since=from_ms(since))


def _positions_since(lists: StoredLists, since: float) -> Iterator[tuple[float, Subject, int]]:
    for subject, stored in lists.items():
        if isinstance(stored, StoredSubjectList) and max(stored.opening_times) >= since:
            for seq, opened_at in enumerate(stored.opening_times, start=stored.first):
                if opened_at >= since:
                    yield opened_at, subject, seq
