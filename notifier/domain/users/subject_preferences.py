"""A want: how much of a subject a member asks for, whether or not the member follows it; the member's latest counts."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from notifier.domain.audience.bitmap import (
    BLOCK_BYTES,
    BLOCK_MEMBERS,
    SHARD_BLOCKS,
    SHARD_BYTES,
    SHARD_MEMBERS,
    Bits,
    block_of,
    changed,
    from_bytes,
    nobody,
)
from notifier.domain.audience.tiers import SetKind
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import Member, Subject

ALWAYS = datetime(1970, 1, 1, tzinfo=UTC)
NEVER = datetime(9999, 1, 1, tzinfo=UTC)
"""`visible_from` of a subject that is muted until its member says otherwise."""


_TICK = timedelta(milliseconds=1)
"""What every store tells apart."""


class Volume(StrEnum):
    """How much of a subject a person wants, or of everything."""

    DEFAULT = "default"
    """Of a subject: nothing of its own, so that what is said of everything counts. Never said of everything."""
    ALL = "all"
    FIRST = "first"
    """Only the first burst of a UTC day."""
    DIGEST = "digest"
    OFF = "off"

    def admits(self, burst: Burst) -> bool:
        match self:
            case Volume.ALL | Volume.DEFAULT:
                return True
            case Volume.FIRST:
                return burst.first_of_day
            case Volume.DIGEST | Volume.OFF:
                return False


def spares(volume: Volume, visible_from: datetime, burst: Burst) -> bool:
    """Whether the phone of who said so stays silent for it."""
    return visible_from > burst.opened_at or not volume.admits(burst)


SILENT = frozenset({Volume.DIGEST, Volume.OFF})
"""Who leaves these sees what opens from then on."""


def begins_anew(before: Volume, after: Volume) -> bool:
    """Whether what opened until now is gone with the change: what was silent isn't shown later, and no digest repeats
    what was shown."""
    return before is not after and (after is Volume.DIGEST or (before in SILENT and after not in SILENT))


def combined(overall: Volume, own: Volume) -> Volume:
    """What a person wants of a subject, by what is said of everything and of the subject itself.

    The subject's own word is the more particular one, and goes first; but who wants nothing at all gets nothing.
    """
    return overall if overall is Volume.OFF or own is Volume.DEFAULT else own


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """What a member said, and no more: of two that are said side by side about different things both stand."""

    subject: Subject
    member: Member
    at: datetime
    """Of a pair's words about one thing the latest counts, in whatever order they come."""
    volume: Volume | None = None
    visible_from: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """What stands of a pair, by all its words."""

    subject: Subject
    member: Member
    at: datetime
    """Of the latest word."""
    volume: Volume = Volume.DEFAULT
    visible_from: datetime = ALWAYS
    """What opened earlier isn't seen. While it is still to come the subject is muted."""

    def muted(self, now: datetime) -> bool:
        return self.visible_from > now

    def after(self, word: Word) -> "Want":
        volume = self.volume if word.volume is None else word.volume
        since = self.visible_from if word.visible_from is None else word.visible_from
        return replace(self, at=word.at, volume=volume, visible_from=since)

    @property
    def sets(self) -> Collection[SetKind]:
        """Those that the member is in for it. Not for a mute that ends by itself: the rows of a while are written, and
        not seen."""
        muted = [SetKind.MUTED] if self.visible_from == NEVER else []
        return muted if self.volume is Volume.DEFAULT else [*muted, SetKind(self.volume)]


OF_WANTS = (SetKind.MUTED, *(SetKind(volume) for volume in Volume if volume is not Volume.DEFAULT))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a person asks to be changed; what isn't named stays."""

    volume: Volume | None = None
    muted_until: datetime | None = None
    """A moment that has passed ends a mute. What opens before is gone for good, also what opened before the mute."""

    def heard(self, before: Want, now: datetime, overall: Volume = Volume.ALL, default_from: datetime = ALWAYS) -> Word:
        """Said after what stands, also where that is by a clock that is ahead of this one; `overall` is what is said of
        everything, and since when that shows what has no word of its own."""
        return Word(
            subject=before.subject,
            member=before.member,
            at=max(now, before.at + _TICK),
            volume=self.volume,
            visible_from=self._since(before, now, overall, default_from),
        )

    def _since(self, before: Want, now: datetime, overall: Volume, default_from: datetime) -> datetime | None:
        """None where it stays as it is."""
        if self.muted_until is not None and self.muted_until > now:
            return self.muted_until
        unmuted = self.muted_until is not None and before.muted(now)
        volume = before.volume if self.volume is None else self.volume
        anew = begins_anew(combined(overall, before.volume), combined(overall, volume))
        if unmuted or (anew and not before.muted(now)):
            return now
        # What hid as long as the subject had no word of its own doesn't come back with the first one.
        first = before.volume is Volume.DEFAULT and volume is not Volume.DEFAULT
        return default_from if first and default_from > before.visible_from else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockMute:
    """Many members of a block who have muted a subject: one row for all of them, which their own words override."""

    subject: Subject
    block: int
    members: bytes
    """The block's bitmap."""

    def has(self, member: Member) -> bool:
        slot = member % BLOCK_MEMBERS
        return block_of(member) == self.block and bool(self.members[slot // 8] >> slot % 8 & 1)


def standing(member: Member, own: Iterable[Want], mutes: Iterable[BlockMute]) -> Mapping[Subject, Want]:
    """By subject, of one member."""
    shared = {
        mute.subject: Want(subject=mute.subject, member=member, at=ALWAYS, visible_from=NEVER)
        for mute in mutes
        if mute.has(member)
    }
    return shared | {word.subject: word for word in own}


def volumes(wants: Mapping[Subject, Want]) -> Mapping[Subject, Volume]:
    """Of the subjects that have a word of their own."""
    return {subject: want.volume for subject, want in wants.items() if want.volume is not Volume.DEFAULT}


def wanting(own: Collection[Want], mutes: Iterable[BlockMute]) -> Mapping[SetKind, Bits]:
    """Each of the sets of one subject in one shard: the blocks' members, and then what each says for itself."""
    shared = bytearray(SHARD_BYTES)
    for mute in mutes:
        first = mute.block % SHARD_BLOCKS * BLOCK_BYTES
        shared[first : first + BLOCK_BYTES] = mute.members
    before = {SetKind.MUTED: from_bytes(shared)}
    return {
        kind: changed(before.get(kind, nobody()), {word.member % SHARD_MEMBERS: kind in word.sets for word in own})
        for kind in OF_WANTS
    }
