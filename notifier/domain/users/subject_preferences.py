"""Subject preferences: how much of one subject a user wants, and since when."""

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
    from_bytes,
    no_members,
    with_members,
)
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import Member, Subject

ALWAYS = datetime(1970, 1, 1, tzinfo=UTC)
"""Earlier than every burst: `visible_from` of a subject whose bursts are all visible."""
NEVER = datetime(9999, 1, 1, tzinfo=UTC)
"""`visible_from` of a permanently muted subject."""

_TICK = timedelta(milliseconds=1)
"""Finest time resolution that every store keeps."""


class Volume(StrEnum):
    """How much of a subject, or of everything, a user wants to see."""

    DEFAULT = "default"
    """No volume for this subject: the account-wide volume applies. Never used account-wide."""
    ALL = "all"
    FIRST = "first"
    """Only the first burst of a UTC day."""
    DIGEST = "digest"
    OFF = "off"

    def admits(self, burst: Burst) -> bool:
        """Return whether the burst is listed individually at this volume."""
        match self:
            case Volume.ALL | Volume.DEFAULT:
                return True
            case Volume.FIRST:
                return burst.first_of_day
            case Volume.DIGEST | Volume.OFF:
                return False


def suppresses_alert(volume: Volume, visible_from: datetime, burst: Burst) -> bool:
    return visible_from > burst.opened_at or not volume.admits(burst)


UNLISTED_VOLUMES = frozenset({Volume.DIGEST, Volume.OFF})
"""Volumes at which no burst is listed individually."""


def hides_past(before: Volume, after: Volume) -> bool:
    """Return whether the change hides everything that opened so far.

    Bursts that were not listed stay unlisted, and a digest never repeats bursts that were listed.
    """
    return before is not after and (
        after is Volume.DIGEST or (before in UNLISTED_VOLUMES and after not in UNLISTED_VOLUMES)
    )


def effective_volume(account_volume: Volume, subject_volume: Volume) -> Volume:
    """Combine the account-wide volume with the volume that the user set for the subject.

    The subject's volume wins, unless the account-wide volume is OFF.
    """
    return account_volume if account_volume is Volume.OFF or subject_volume is Volume.DEFAULT else subject_volume


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceChange:
    """One change to the preference of a (subject, member) pair. Fields left as None are unchanged.

    Concurrent changes to different fields both take effect.
    """

    subject: Subject
    member: Member
    at: datetime
    """Time of the change. For each field the latest time wins, regardless of arrival order."""
    volume: Volume | None = None
    visible_from: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectPreference:
    """The current preference of a (subject, member) pair, after all changes."""

    subject: Subject
    member: Member
    at: datetime
    volume: Volume = Volume.DEFAULT
    visible_from: datetime = ALWAYS
    """Bursts opened earlier are hidden. While this is in the future, the subject is muted."""

    def is_muted(self, now: datetime) -> bool:
        return self.visible_from > now

    def apply(self, change: PreferenceChange) -> "SubjectPreference":
        volume = self.volume if change.volume is None else change.volume
        since = self.visible_from if change.visible_from is None else change.visible_from
        return replace(self, at=change.at, volume=volume, visible_from=since)

    @property
    def member_sets(self) -> Collection[SetKind]:
        """Return the member sets that contain the member because of this preference.

        Temporary mutes are in no set: rows are written meanwhile, but not shown.
        """
        muted = [SetKind.MUTED] if self.visible_from == NEVER else []
        return muted if self.volume is Volume.DEFAULT else [*muted, SetKind(self.volume)]


SUBJECT_PREFERENCE_SETS = (SetKind.MUTED, *(SetKind(volume) for volume in Volume if volume is not Volume.DEFAULT))
"""Member sets that subject preferences determine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferencePatch:
    """A user's request to change a subject preference. Fields left as None are unchanged."""

    volume: Volume | None = None
    muted_until: datetime | None = None
    """A time in the past ends a mute. Bursts opened before or during the mute stay hidden."""

    def change_for(
        self,
        before: SubjectPreference,
        now: datetime,
        account_volume: Volume = Volume.ALL,
        default_from: datetime = ALWAYS,
    ) -> PreferenceChange:
        """Return the change that this request makes to the current preference.

        The change is newer than the current preference, even if that was written by a clock that is ahead.
        `account_volume` and `default_from` are those of the account preferences.
        """
        return PreferenceChange(
            subject=before.subject,
            member=before.member,
            at=max(now, before.at + _TICK),
            volume=self.volume,
            visible_from=self._new_visible_from(before, now, account_volume, default_from),
        )

    def _new_visible_from(
        self, before: SubjectPreference, now: datetime, account_volume: Volume, default_from: datetime
    ) -> datetime | None:
        """Return the new `visible_from`, or None if it is unchanged."""
        if self.muted_until is not None and self.muted_until > now:
            return self.muted_until
        ends_mute = self.muted_until is not None and before.is_muted(now)
        volume = before.volume if self.volume is None else self.volume
        hides_opened = hides_past(
            effective_volume(account_volume, before.volume), effective_volume(account_volume, volume)
        )
        if ends_mute or (hides_opened and not before.is_muted(now)):
            return now
        # When a subject gets its first volume, bursts that the account-wide volume has hidden must stay hidden.
        is_first_volume = before.volume is Volume.DEFAULT and volume is not Volume.DEFAULT
        return default_from if is_first_volume and default_from > before.visible_from else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberBlockMutes:
    """Members of one block who have muted a subject, in one row. A member's own preference overrides the row."""

    subject: Subject
    block: int
    members: bytes
    """The block's bitmap."""

    def contains(self, member: Member) -> bool:
        slot = member % BLOCK_MEMBERS
        return block_of(member) == self.block and bool(self.members[slot // 8] >> slot % 8 & 1)


def current_preferences(
    member: Member, own: Iterable[SubjectPreference], mutes: Iterable[MemberBlockMutes]
) -> Mapping[Subject, SubjectPreference]:
    """Return one member's current preferences by subject. Own preferences override block mutes."""
    from_blocks = {
        mute.subject: SubjectPreference(subject=mute.subject, member=member, at=ALWAYS, visible_from=NEVER)
        for mute in mutes
        if mute.contains(member)
    }
    return from_blocks | {preference.subject: preference for preference in own}


def own_volumes(preferences: Mapping[Subject, SubjectPreference]) -> Mapping[Subject, Volume]:
    """Return the volumes that the user set for single subjects."""
    return {
        subject: preference.volume
        for subject, preference in preferences.items()
        if preference.volume is not Volume.DEFAULT
    }


def preference_sets(own: Collection[SubjectPreference], mutes: Iterable[MemberBlockMutes]) -> Mapping[SetKind, Bits]:
    """Return the preference sets of one subject in one shard. Own preferences override block mutes."""
    muted_in_blocks = bytearray(SHARD_BYTES)
    for mute in mutes:
        first_byte = mute.block % SHARD_BLOCKS * BLOCK_BYTES
        muted_in_blocks[first_byte : first_byte + BLOCK_BYTES] = mute.members
    from_blocks = {SetKind.MUTED: from_bytes(muted_in_blocks)}
    return {
        kind: with_members(
            from_blocks.get(kind, no_members()),
            {preference.member % SHARD_MEMBERS: kind in preference.member_sets for preference in own},
        )
        for kind in SUBJECT_PREFERENCE_SETS
    }
