"""Scripts: inputs and faults of a run, each at a step or point."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import (
    Address,
    AppleToken,
    Device,
    DeviceUpdate,
    FirebaseToken,
    WebSubscription,
    removal_of,
)
from tests.support.oracle import Person

# Devices of the population: each user's platforms where there are several.

ONE = (Platform.FCM,)
ALL = (Platform.APNS, Platform.FCM, Platform.WEB)
PLATFORMS_OF = {"kim": ALL, "roy": (Platform.APNS, Platform.FCM), "lee": (Platform.WEB,), "nova": (Platform.APNS,)}
"""Platforms of the users who have phones from the start; other users have FCM."""


def platforms_of(name: str, platforms: Collection[Platform]) -> Collection[Platform]:
    return PLATFORMS_OF.get(name, ONE) if len(platforms) > 1 else platforms


def devices_of(person: Person, platforms: Collection[Platform], now: datetime) -> Iterator[DeviceUpdate]:
    """Yield a device for each platform, registered now; or its removal if the user has no phone."""
    for platform in platforms_of(person.name, platforms):
        device = Device(member=Member(person.member), address=_address(person.name, platform), registered_at=now)
        yield device if person.push else removal_of(device)


def _address(name: str, platform: Platform) -> Address:
    match platform:
        case Platform.APNS:
            return AppleToken(token=name.encode().hex(), topic="app")
        case Platform.FCM:
            return FirebaseToken(token=name)
        case Platform.WEB:
            return WebSubscription(endpoint=f"https://push.example/{name}", key=bytes(65), secret=bytes(16))


class Part(StrEnum):
    """Dependencies that can be unavailable as a whole."""

    STORE = "store"
    LOG = "log"
    CACHE = "cache"
    QUEUE = "queue"
    PROVIDER = "provider"


class FailureMode(StrEnum):
    """When a call fails, relative to its effect."""

    BEFORE = "before"
    HALF = "half"
    """Part of the arguments took effect."""
    AFTER = "after"


class QueueDamage(StrEnum):
    """How a queue is damaged."""

    LOSE = "lose"
    DOUBLE = "double"
    SHUFFLE = "shuffle"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tweeted:
    id: str
    author: str
    mentioned: tuple[str, ...]
    protected: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A user changes a preference or attribute.

    `what` is one of: follow, unfollow, block, unblock, mute, unmute, volume:X, overall:X, alerts:on, alerts:off, vip,
    idle:HOURS, push, quiet:FROM-TO (hours of the day), phone:on:N, phone:off:N, phone:drop:N, or phone:ANSWER:N. N is
    one of a few devices; ANSWER is the next answer of its provider.
    """

    person: str
    what: str
    whom: str = ""
    sequence: int = 0
    """Sequence of the graph service for a follow, a block or its end; 0 means the next of the pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retracted:
    """Deletion or edit of a tweet, or protection or erasure of an author.

    An edit lists the accounts still mentioned.
    """

    what: str
    author: str
    tweet: str = ""
    mentioned: tuple[str, ...] = ()
    sequence: int = 0
    """Sequence of the tweet's edits."""

    @property
    def id(self) -> str:
        return f"{self.what} {self.tweet or self.author} {self.sequence}"

    @property
    def text(self) -> str:
        return f"edited {self.sequence}" if self.what == "edit" else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resized:
    """The claimed number of followers changes."""

    account: str
    followers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A user opens all pages of the inbox, and may submit the first page's token or mark the first item."""

    person: str
    limit: int = 50
    see: bool = False
    mark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttled:
    tier: str
    rate: float | None
    lasting: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictChanged:
    """An operator sets the verdict of an author: `hold`, or `all` again."""

    account: str
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """A process is killed and restarts with empty memory."""

    process: str
    back_after: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalled:
    """A thread, or a process with all its threads, stalls while the others go on."""

    name: str
    lasting: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A thread stalls for good. If its process restarts, it does so without this thread."""

    thread: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """The next call of a thread fails."""

    thread: str
    how: FailureMode


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    part: Part
    lasting: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiped:
    """Redis comes back empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDamaged:
    pool: str
    how: QueueDamage


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """The whole machine sleeps."""

    lasting: timedelta


Input = Tweeted | Retracted | Changed | Resized | Opened | Throttled | VerdictChanged
Fault = Killed | Stalled | Lost | Failing | Outage | Wiped | QueueDamaged | Frozen


AFTER_EFFECT = "behind "
"""Prefix of the label of a point after a call's effect; the label of a point before it is the call alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptEntry:
    what: Input | Fault
    step: int = 0
    point: tuple[str, int] | None = None
    """A thread and the number of its switch point, instead of a step. A port call has two: before and after its
    effect."""

    def __str__(self) -> str:
        when = f"step {self.step}" if self.point is None else f"{self.point[0]}, point {self.point[1]}"
        return f"{when}: {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    seed: int
    steps: int
    entries: Sequence[ScriptEntry] = ()
    pumps: int = 1
    workers: int = 1
    """Workers of each pool."""
    collapse: timedelta | None = None
    crowd: int = 0
    """Followers with consecutive numbers, so that an inbox row names many members."""
    roll_up_every: timedelta = timedelta(0)
    """Interval of the activity roll-up; 0 means never."""
    threshold: int = 1_000
    """Follower count from which an account is a celebrity."""
    resizes: bool = False
    """Routers read sizes again for each mention, because sizes change quickly here."""
    graph: bool = False
    """Follows and preferences go through the log to an indexer. Otherwise they apply at once."""

    devices: bool = False
    """Devices go through the log to the device indexer. Otherwise they apply at once."""

    platforms: tuple[Platform, ...] = ONE
    """Platforms. If there are several, some users have devices of several, and others of one."""

    has_operator: bool = False
    """An operator releases held mentions repeatedly."""

    @property
    def has_retractions(self) -> bool:
        """Whether the script has retractions: only then there are a retractor and a thread that sends retractions."""
        return any(isinstance(entry.what, Retracted) for entry in self.entries)

    def with_more(self, *more: ScriptEntry) -> "Script":
        return replace(self, entries=(*self.entries, *more))
