"""State of one user, computed from all updates in any order."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Self

BEFORE_ALL = datetime(1970, 1, 1, tzinfo=UTC)
FOR_EVER = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUpdate:
    """Follow or unfollow by the graph service.

    The highest sequence of a pair counts. On a tie the unfollow wins, then the later time.
    """

    person: str
    owner: str
    sequence: int
    at: datetime
    is_unfollow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceUpdate:
    """Preference change by the user; for each of the two fields the latest counts."""

    person: str
    owner: str
    at: datetime
    volume: str | None = None
    since: datetime | None = None
    """Bursts that open from then on are wanted; `FOR_EVER` means a mute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountUpdate:
    """Change of the user's account-wide preferences."""

    person: str
    at: datetime
    volume: str | None = None
    since: datetime | None = None
    """Bursts of all subjects that open from then on are wanted."""
    default_since: datetime | None = None
    """The same, for accounts without a volume of their own."""
    alerts: bool | None = None
    quiet: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockUpdate:
    """Block or unblock by the graph service, as seen by one of the two users.

    The highest sequence of an ordered pair counts. On a tie the longer block wins.
    """

    person: str
    peer: str
    peer_blocks: bool
    """The other user is the blocker."""
    sequence: int
    until: datetime
    """The two see each other again from then on, as far as this block goes; `FOR_EVER` while it lasts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUpdate:
    """Registration or removal of a device by an app or a provider; the highest rank of a device counts."""

    person: str
    device: str
    rank: tuple[datetime, bool, int]
    is_registered: bool
    """Whether the user has the device from then on."""


Update = FollowUpdate | PreferenceUpdate | AccountUpdate | BlockUpdate | DeviceUpdate


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """State of one user at one moment."""

    name: str
    member: int
    deleted: bool = False
    follows: Mapping[str, datetime] = field(default_factory=dict)
    """When each follow took effect, by account. Includes muted accounts."""
    muted: frozenset[str] = frozenset()
    volume: Mapping[str, str] = field(default_factory=dict)
    """The user's own settings, by account."""
    overall: str = "all"
    """For all other accounts; `off` applies to every account."""
    alerts: bool = True
    asked: bool = False
    """Whether the user turned alerts on explicitly."""
    quiet: tuple[int, int] = (0, 0)
    """Hours of the day (UTC) between which alerts are silent; equal hours mean none."""
    apart: Mapping[tuple[str, bool], datetime] = field(default_factory=dict)
    """When each block ends, by the other user and by whether the other user is the blocker."""
    vip: bool = False
    push: bool = False
    idle: timedelta = timedelta(days=365)
    since: Mapping[str, datetime] = field(default_factory=dict)
    """When a mute or a volume ended, by account: bursts that open from then on are wanted."""
    overall_since: datetime = BEFORE_ALL
    default_since: datetime = BEFORE_ALL

    def after(self, updates: Collection[Update]) -> Self:
        """Return the user after all these updates, which may be in any order."""
        if not updates:
            return self
        follow_updates = [
            update for update in updates if isinstance(update, FollowUpdate) and update.person == self.name
        ]
        preference_updates = [
            update for update in updates if isinstance(update, PreferenceUpdate) and update.person == self.name
        ]
        follows = dict(self.follows)
        for follow in sorted(follow_updates, key=lambda update: (update.sequence, update.is_unfollow, update.at)):
            follows.pop(follow.owner, None)
            if not follow.is_unfollow:
                follows[follow.owner] = follow.at
        volume, since = dict(self.volume), dict.fromkeys(self.muted, FOR_EVER) | dict(self.since)
        for change in sorted(preference_updates, key=lambda update: update.at):
            volume |= {} if change.volume is None else {change.owner: change.volume}
            since |= {} if change.since is None else {change.owner: change.since}
        muted = frozenset(owner for owner, moment in since.items() if moment == FOR_EVER)
        person = replace(self, follows=follows, volume=volume, muted=muted, since=since)
        return person._arranged(updates)._parted(updates)._phoned(updates)

    def _phoned(self, updates: Collection[Update]) -> Self:
        """Apply device updates. Without any, the loaded value remains."""
        device_updates = [
            update for update in updates if isinstance(update, DeviceUpdate) and update.person == self.name
        ]
        current = {
            update.device: update.is_registered for update in sorted(device_updates, key=lambda update: update.rank)
        }
        return replace(self, push=any(current.values())) if current else self

    def _parted(self, updates: Collection[Update]) -> Self:
        block_updates = [update for update in updates if isinstance(update, BlockUpdate) and update.person == self.name]
        ordered = sorted(block_updates, key=lambda update: (update.sequence, update.until))
        return replace(
            self, apart={**self.apart, **{(update.peer, update.peer_blocks): update.until for update in ordered}}
        )

    def _arranged(self, updates: Collection[Update]) -> Self:
        account_updates = [
            update for update in updates if isinstance(update, AccountUpdate) and update.person == self.name
        ]
        person = self
        for update in sorted(account_updates, key=lambda update: update.at):
            person = replace(
                person,
                overall=update.volume or person.overall,
                overall_since=update.since or person.overall_since,
                default_since=update.default_since or person.default_since,
                alerts=person.alerts if update.alerts is None else update.alerts,
                asked=person.asked if update.alerts is None else update.alerts,
                quiet=update.quiet or person.quiet,
            )
        return person

    def sleeps(self, now: datetime) -> bool:
        """Whether quiet hours cover this hour; quiet hours from 22 to 6 cover the hour that begins at 23."""
        start, end = self.quiet
        return (now.hour - start) % 24 < (end - start) % 24

    @property
    def blocked(self) -> frozenset[str]:
        """Accounts that the user blocks or that block the user."""
        return frozenset(account for (account, _), until in self.apart.items() if until == FOR_EVER)

    def effective_volume(self, owner: str) -> str:
        """Return the effective volume: the account's own setting first, unless everything is off."""
        own = self.volume.get(owner, "default")
        return self.overall if own == "default" or self.overall == "off" else own

    def wants_since(self, owner: str) -> datetime:
        has_own_volume = self.volume.get(owner, "default") != "default"
        everything = self.overall_since if has_own_volume else max(self.overall_since, self.default_since)
        reunited = max((until for (account, _), until in self.apart.items() if account == owner), default=BEFORE_ALL)
        return max(self.follows[owner], self.since.get(owner, BEFORE_ALL), everything, reunited)
