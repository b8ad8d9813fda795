"""A realistic inbox history, and bursts that reach a share of members."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count, islice
from typing import Self

import numpy as np
import numpy.typing as npt

from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, from_flags
from notifier.domain.audience.inbox_rows import INBOX_WINDOW, InboxRow, InboxRows, cut_inbox_rows, window_of
from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.ids import BurstKey, Kind, Member, Subject, UserId

GROUPS = (1_000, 200, 100, 50, 20, 4) * 5
"""Number of subjects in each group. A member follows one subject per group, 30 in all. So a subject of a group of 1,000
reaches 0.1 % of all members, and a subject of a group of 4 reaches 25 %."""
TIERS = {Tier.P0: 0.01, Tier.P1: 0.2, Tier.P2: 0.79}
"""Shares of the members. A member's tier is the same for all subjects."""
LEFT_OUT_SHARE = 0.02
"""Share of a subject's followers that a burst does not reach. Each burst leaves out different followers."""
SUBJECTS_WITH_BURSTS = 1_000
"""Number of subjects per group that have bursts: the first ones."""

Members = npt.NDArray[np.int64]
"""Member numbers in ascending order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedBurst:
    """A burst with the members that it reaches, by tier."""

    burst: BurstKey
    opened_at: datetime
    tiers: Mapping[Tier, Members]

    @property
    def deliveries(self) -> int:
        return sum(map(len, self.tiers.values()))

    def rows(self, width: int, first: int = 0) -> list[InboxRows]:
        """Return its rows for ranges of this width. The first range gets the number `first`."""
        return [
            _rows(self, tier, members, width=width, first=first) for tier, members in self.tiers.items() if len(members)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxHistory:
    """Subjects of every density, with nearly constant members."""

    follows: npt.NDArray[np.int64]
    """The number of the subject that each member follows, by group."""
    tiers: npt.NDArray[np.int64]
    """Index into TIERS of each member's tier."""
    most: int = SUBJECTS_WITH_BURSTS

    @classmethod
    def made(cls, people: int, *, most: int = SUBJECTS_WITH_BURSTS, readers: Sequence[int] = ()) -> Self:
        """Return the same history for the same numbers. Readers follow only subjects that have bursts."""
        random = np.random.default_rng(1)
        follows = np.array([random.integers(subjects, size=people) for subjects in GROUPS])
        for group, subjects in enumerate(GROUPS):
            follows[group, readers] = random.integers(min(subjects, most), size=len(readers))
        return cls(follows=follows, tiers=random.choice(len(TIERS), size=people, p=[*TIERS.values()]), most=most)

    def subjects(self, member: Member) -> list[Subject]:
        """Return the subjects that the member follows."""
        return [_subject(group, number) for group, number in enumerate(self.follows[:, member].tolist())]

    def windows(self, now: datetime, windows: int) -> Iterator[list[OpenedBurst]]:
        """Yield the bursts of each inbox window, the oldest window first. Every third subject opens two bursts."""
        random = np.random.default_rng(2)
        followers = dict(self._followers())
        subjects, sequence = [*followers], dict.fromkeys(followers, 0)
        opening = len(subjects) + len(subjects) // 3
        moments = openings(now, windows, opening)
        for _ in range(windows):
            order = np.concatenate([random.permutation(len(subjects)), random.permutation(len(subjects))])[:opening]
            bursts = []
            for opened_at, place in zip(islice(moments, opening), random.permutation(order).tolist(), strict=True):
                subject = subjects[place]
                sequence[subject] += 1
                tiers = {
                    tier: members[random.random(len(members)) >= LEFT_OUT_SHARE]
                    for tier, members in followers[subject].items()
                }
                bursts.append(OpenedBurst(burst=BurstKey(subject, sequence[subject]), opened_at=opened_at, tiers=tiers))
            yield bursts

    def _followers(self) -> Iterator[tuple[Subject, Mapping[Tier, Members]]]:
        """Return the followers of each subject that has bursts, by tier."""
        for group, followed in enumerate(self.follows):
            by_subject = np.argsort(followed, kind="stable")
            ends = np.searchsorted(followed[by_subject], np.arange(1, min(GROUPS[group], self.most) + 1))
            for number, members in enumerate(np.split(by_subject, ends)[:-1]):
                tiers = {tier: members[self.tiers[members] == place] for place, tier in enumerate(TIERS)}
                yield _subject(group, number), tiers


def cut_into(members: Members, width: int) -> tuple[Sequence[int], Sequence[bytes]]:
    """Return the ranges of this width and the members of each, cut as the product does, except for the width."""
    numbers, places = np.divmod(members, width)
    begins = np.flatnonzero(np.diff(numbers, prepend=-1))
    listed, packed = places.astype("<u2").tobytes(), list[bytes]()
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(members)], strict=True):
        as_list = 32 * (end - begin) < width
        packed.append(listed[2 * begin : 2 * end] if as_list else _bitmap(places[begin:end], width))
    return numbers[begins].tolist(), packed


def reaches(members: bytes, place: int, width: int) -> bool:
    """Return whether a row of a range of this width contains the place."""
    if len(members) == width // 8:
        return bool(members[place // 8] >> (place % 8) & 1)
    return place in np.frombuffer(members, dtype="<u2")


def openings(now: datetime, windows: int, bursts: int) -> Iterator[datetime]:
    """Yield opening times, evenly spread over each inbox window and over the elapsed part of the newest."""
    begun = now - (now - datetime(1970, 1, 1, tzinfo=now.tzinfo)) % INBOX_WINDOW
    for back in range(windows - 1, -1, -1):
        begin = begun - back * INBOX_WINDOW
        step = min(INBOX_WINDOW, now - begin) / (bursts + 1)
        for number in range(bursts):
            opened_at = begin + (number + 1) * step
            assert window_of(opened_at) == window_of(now) - back
            yield opened_at - timedelta(microseconds=opened_at.microsecond % 1_000)


def _subject(group: int, number: int) -> Subject:
    return Subject(Kind.MENTION, UserId(f"star{group * SUBJECTS_WITH_BURSTS + number}"))


def _rows(opened: OpenedBurst, tier: Tier, members: Members, *, width: int, first: int) -> InboxRows:
    numbers, named = cut_into(members, width)
    return InboxRows(
        burst=opened.burst,
        opened_at=opened.opened_at,
        tier=tier,
        shard=0,
        ranges=[first + number for number in numbers],
        members=named,
        delivery_count=len(members),
    )


def _bitmap(places: Members, width: int) -> bytes:
    flags = np.zeros(width, dtype=np.bool_)
    flags[places] = True
    return np.packbits(flags, bitorder="little").tobytes()


# Bursts that reach a share of the members of every range.

SUBJECT = Subject(Kind.MENTION, UserId("nova"))
BITMAP_COUNT = 8
"""Number of different bitmaps. The shards use them in turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticBursts:
    shards: range
    share: float
    """Share of a range's members that a burst reaches."""
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))

    def rows(self, opened_at: datetime) -> list[InboxRows]:
        """Return the rows of the next burst, shard by shard."""
        key = BurstKey(SUBJECT, next(self._numbers))
        bitmaps = [self._bits() for _ in range(min(BITMAP_COUNT, len(self.shards)))]
        return [
            cut_inbox_rows(bitmaps[shard % len(bitmaps)], burst=key, opened_at=opened_at, tier=Tier.P1, shard=shard)
            for shard in self.shards
        ]

    def _bits(self) -> Bits:
        return from_flags(self._random.random(SHARD_MEMBERS) < self.share)


def single(rows: InboxRows) -> Iterator[InboxRow]:
    """Yield each row as a reader gets it."""
    for members in rows.members:
        yield InboxRow(burst=rows.burst, opened_at=rows.opened_at, tier=rows.tier, members=members)


def first(rows: Sequence[InboxRows], deliveries: int) -> list[InboxRows]:
    """Return the first rows that reach this many members, the last row whole. Slow writers get only these."""
    rows_taken: list[InboxRows] = []
    left = deliveries
    for group in rows:
        ranges, reached = 0, 0
        for row in single(group):
            if reached >= left:
                break
            ranges, reached = ranges + 1, reached + len(row.offsets())
        if ranges:
            rows_taken.append(
                replace(group, ranges=group.ranges[:ranges], members=group.members[:ranges], delivery_count=reached)
            )
        left -= reached
    return rows_taken
