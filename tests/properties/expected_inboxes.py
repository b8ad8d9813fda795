"""A plain log of user actions, and the inboxes that they must result in."""

# The rules are implemented again from the documentation. They share only value types with the product.

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from notifier.domain.ids import BurstKey, Kind, Subject, UserId
from notifier.domain.users.subject_preferences import Volume
from notifier.domain.users.visibility import Mark

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
FOREVER = datetime(9998, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
SHARED_FOR = timedelta(seconds=60)
"""Public mentions of one subject within this time share a burst."""
KEPT_FOR = timedelta(days=90)


@dataclass(frozen=True, kw_only=True)
class Mentioned:
    at: datetime
    tweet: str
    author: str
    owners: tuple[str, ...]
    protected: bool


@dataclass(frozen=True, kw_only=True)
class Deleted:
    at: datetime
    tweet: str


@dataclass(frozen=True, kw_only=True)
class Followed:
    at: datetime
    user: str
    owner: str
    ended: bool


@dataclass(frozen=True, kw_only=True)
class Blocked:
    at: datetime
    blocker: str
    blocked: str
    ended: bool


@dataclass(frozen=True, kw_only=True)
class Muted:
    at: datetime
    user: str
    owner: str
    until: datetime
    """A time in the past ends the mute."""


@dataclass(frozen=True, kw_only=True)
class VolumeSet:
    at: datetime
    user: str
    owner: str | None
    """None means account-wide."""
    volume: Volume


@dataclass(frozen=True, kw_only=True)
class Marked:
    at: datetime
    user: str
    key: BurstKey
    mark: Mark


@dataclass(frozen=True, kw_only=True)
class Seen:
    at: datetime
    user: str
    as_of: datetime
    newer: frozenset[BurstKey]


Action = Mentioned | Deleted | Followed | Blocked | Muted | VolumeSet | Marked | Seen


@dataclass(kw_only=True)
class Burst:
    key: BurstKey
    opened_at: datetime
    restricted_to: str | None
    first_of_day: bool
    mentions: list[Mentioned]

    @property
    def authors(self) -> set[str]:
        return {mention.author for mention in self.mentions}


@dataclass(frozen=True, kw_only=True)
class ShownItem:
    """An item as the inbox must show it."""

    key: BurstKey
    opened_at: datetime
    count: int
    names: frozenset[str]
    unread: bool


@dataclass(kw_only=True)
class Facts:
    """Everything that determines what one user sees at one time."""

    user: str
    now: datetime
    since: dict[str, datetime] = field(default_factory=dict)
    """Per followed account: since when the user follows it."""
    floors: dict[str, datetime] = field(default_factory=dict)
    """Per account: bursts opened earlier are hidden, because of a mute, a volume or a block that ended."""
    floor: datetime = LONG_AGO
    """The same for all accounts."""
    blocks: set[tuple[str, str]] = field(default_factory=set)
    volumes: dict[str, Volume] = field(default_factory=dict)
    everything: Volume = Volume.ALL
    marks: dict[BurstKey, Mark] = field(default_factory=dict)
    seen_at: datetime = LONG_AGO
    also_seen: set[BurstKey] = field(default_factory=set)
    unblocked: dict[str, datetime] = field(default_factory=dict)

    @property
    def blocked_users(self) -> set[str]:
        return {user for pair in self.blocks if self.user in pair for user in pair} - {self.user}

    def volume_of(self, owner: str) -> Volume:
        own = self.volumes.get(owner, Volume.DEFAULT)
        return self.everything if Volume.OFF is self.everything or own is Volume.DEFAULT else own

    def apply(self, action: Action) -> None:
        match action:
            case Followed() if action.user == self.user:
                if action.ended:
                    del self.since[action.owner]
                else:
                    self.since[action.owner] = action.at
            case Blocked():
                self._block(action)
            case Muted() if action.user == self.user:
                if action.until > action.at:
                    self.floors[action.owner] = action.until
                elif self.floors.get(action.owner, LONG_AGO) > action.at:
                    self.floors[action.owner] = action.at
            case VolumeSet() if action.user == self.user:
                self._set_volume(action)
            case Marked() if action.user == self.user:
                self.marks[action.key] = action.mark
            case Seen() if action.user == self.user:
                self.seen_at = max(self.seen_at, action.as_of)
                self.also_seen |= action.newer

    def _block(self, action: Blocked) -> None:
        pair = action.blocker, action.blocked
        if not action.ended:
            self.blocks.add(pair)
        elif pair in self.blocks:
            self.blocks.discard(pair)
            if self.user in pair:
                [other_user] = {*pair} - {self.user}
                self.unblocked[other_user] = action.at

    def _set_volume(self, action: VolumeSet) -> None:
        if action.owner is None:
            if self.everything is Volume.OFF and action.volume is not Volume.OFF:
                self.floor = action.at
            self.everything = action.volume
            return
        before = self.volume_of(action.owner)
        self.volumes[action.owner] = action.volume
        muted = self.floors.get(action.owner, LONG_AGO) > action.at
        if before is Volume.OFF and self.volume_of(action.owner) is not Volume.OFF and not muted:
            self.floors[action.owner] = action.at

    def shows(self, burst: Burst) -> bool:
        """Return whether the inbox lists the burst."""
        if not burst.mentions or burst.opened_at + KEPT_FOR <= self.now:
            return False
        owner = burst.key.subject.owner
        if burst.key.subject.kind is Kind.SELF:
            in_audience, volume = owner == self.user, Volume.ALL
        else:
            in_audience, volume = self._follows_at(owner, burst.opened_at), self.volume_of(owner)
        return (
            in_audience
            and (burst.restricted_to is None or burst.restricted_to in self.since)
            and not burst.authors <= self.blocked_users
            and (volume in (Volume.ALL, Volume.DEFAULT) or (volume is Volume.FIRST and burst.first_of_day))
            and self.marks.get(burst.key) is not Mark.HIDDEN
        )

    def _follows_at(self, owner: str, opened_at: datetime) -> bool:
        if owner not in self.since or owner in self.blocked_users:
            return False
        floors = [self.floors.get(owner, LONG_AGO), self.unblocked.get(owner, LONG_AGO), self.floor]
        return opened_at >= max(self.since[owner], *floors)

    def unread(self, burst: Burst) -> bool:
        mark = self.marks.get(burst.key, Mark.NONE)
        if mark is not Mark.NONE:
            return mark is Mark.UNREAD
        return burst.opened_at > self.seen_at and burst.key not in self.also_seen


@dataclass
class Log:
    """All actions, oldest first."""

    actions: list[Action] = field(default_factory=list)

    def add(self, action: Action) -> None:
        self.actions.append(action)

    def facts(self, user: str, now: datetime) -> Facts:
        facts = Facts(user=user, now=now)
        for action in self.actions:
            facts.apply(action)
        return facts

    def inbox(self, user: str, now: datetime) -> list[ShownItem]:
        """Return all items of the user's inbox, newest first."""
        facts = self.facts(user, now)
        visible = [burst for burst in bursts_of(self.actions) if facts.shows(burst)]
        return [
            ShownItem(
                key=burst.key,
                opened_at=burst.opened_at,
                count=len(burst.mentions),
                names=frozenset(burst.authors - facts.blocked_users),
                unread=facts.unread(burst),
            )
            for burst in sorted(visible, key=lambda burst: (burst.opened_at, burst.key), reverse=True)
        ]

    def tweets(self) -> list[Mentioned]:
        """Return the tweets that were not deleted."""
        deleted = {action.tweet for action in self.actions if isinstance(action, Deleted)}
        return [action for action in self.actions if isinstance(action, Mentioned) and action.tweet not in deleted]


def bursts_of(actions: Iterable[Action]) -> list[Burst]:
    by_subject: dict[Subject, list[Burst]] = {}
    for action in actions:
        match action:
            case Mentioned():
                for subject in subjects_of(action):
                    _add(by_subject.setdefault(subject, []), subject, action)
            case Deleted():
                for burst in (burst for bursts in by_subject.values() for burst in bursts):
                    burst.mentions = [mention for mention in burst.mentions if mention.tweet != action.tweet]
            case _:
                pass
    return [burst for bursts in by_subject.values() for burst in bursts]


def subjects_of(mention: Mentioned) -> Iterator[Subject]:
    """Yield the subjects of a mention: the account's followers and the account itself, except self-mentions."""
    for owner in (owner for owner in mention.owners if owner != mention.author):
        yield Subject(Kind.MENTION, UserId(owner))
        yield Subject(Kind.SELF, UserId(owner))


def _add(bursts: list[Burst], subject: Subject, mention: Mentioned) -> None:
    public = [burst for burst in bursts if burst.restricted_to is None]
    latest = public[-1] if public else None
    if not mention.protected and latest and latest.mentions and mention.at < latest.opened_at + SHARED_FOR:
        latest.mentions.append(mention)
        return
    opened_at = max([mention.at, *(burst.opened_at + MILLISECOND for burst in bursts[-1:])])
    bursts.append(
        Burst(
            key=BurstKey(subject, len(bursts) + 1),
            opened_at=opened_at,
            restricted_to=mention.author if mention.protected else None,
            first_of_day=not mention.protected and not _has_first(public, opened_at),
            mentions=[mention],
        )
    )


def _has_first(public: Sequence[Burst], opened_at: datetime) -> bool:
    """Return whether the day already has a first public burst that is not retracted."""
    return any(burst.first_of_day and burst.mentions and burst.opened_at.date() == opened_at.date() for burst in public)
