"""The script of a run: what is put in and what goes wrong, each at a step or at a point of one thread."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from notifier.domain.ids import Member, Platform
from notifier.domain.push.device import Address, AppleToken, Device, DeviceWord, FirebaseToken, WebSubscription, gone
from tests.support.oracle import Person

# The handsets: by which providers the scene's people are reached, where there are several, and their devices.

ONE = (Platform.FCM,)
ALL = (Platform.APNS, Platform.FCM, Platform.WEB)
KEPT = {"kim": ALL, "roy": (Platform.APNS, Platform.FCM), "lee": (Platform.WEB,), "nova": (Platform.APNS,)}
"""Of those who have a phone; others who get one have Google's."""


def kept(name: str, platforms: Collection[Platform]) -> Collection[Platform]:
    return KEPT.get(name, ONE) if len(platforms) > 1 else platforms


def handsets(person: Person, platforms: Collection[Platform], now: datetime) -> Iterator[DeviceWord]:
    """One for each provider, as it stands from now on."""
    for platform in kept(person.name, platforms):
        device = Device(member=Member(person.member), address=_address(person.name, platform), registered_at=now)
        yield device if person.push else gone(device)


def _address(name: str, platform: Platform) -> Address:
    match platform:
        case Platform.APNS:
            return AppleToken(token=name.encode().hex(), topic="app")
        case Platform.FCM:
            return FirebaseToken(token=name)
        case Platform.WEB:
            return WebSubscription(endpoint=f"https://push.example/{name}", key=bytes(65), secret=bytes(16))


class Part(StrEnum):
    """What can be out of reach as a whole."""

    STORE = "store"
    LOG = "log"
    CACHE = "cache"
    QUEUE = "queue"
    PROVIDER = "provider"


class How(StrEnum):
    """How a call fails, seen from its effect."""

    BEFORE = "before"
    HALF = "half"
    """Some of what was given took effect."""
    AFTER = "after"


class Meddling(StrEnum):
    """What a queue does to its tasks."""

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
    """A person changes a mind or a habit: follow, unfollow, block, unblock, mute, unmute, volume:X, overall:X, alerts,
    vip, idle:HOURS, push, quiet:FROM-TO, which are hours of the day; phone:on:N, phone:off:N or phone:drop:N, of one of
    a few devices, and phone:ANSWER:N, which is its provider's next one."""

    person: str
    what: str
    whom: str = ""
    sequence: int = 0
    """Of a follow or a block, or its end, as who keeps the graph counts; 0: the next of the pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenBack:
    """Delete or edit of a tweet, protect or erase of an author: whoever wrote it, and whom an edit still names."""

    what: str
    author: str
    tweet: str = ""
    mentioned: tuple[str, ...] = ()
    sequence: int = 0
    """Of the tweet's edits."""

    @property
    def id(self) -> str:
        return f"{self.what} {self.tweet or self.author} {self.sequence}"

    @property
    def text(self) -> str:
        return f"edited {self.sequence}" if self.what == "edit" else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resized:
    """So many follow the account, as is claimed of it."""

    account: str
    followers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A person walks through the whole tab, and may hand in the first page's token or mark what came first."""

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
class Judged:
    """An operator says how far an account's mentions carry: `hold`, or `all` again."""

    account: str
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """A process is gone, and comes back with nothing in its memory."""

    process: str
    back_after: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Stalled:
    """A thread, or a process with all its threads, sleeps while the others go on."""

    name: str
    lasting: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A thread ends for good, and no life of its process has it again."""

    thread: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failing:
    """The next call of a thread fails."""

    thread: str
    how: How


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    part: Part
    lasting: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiped:
    """Redis comes back empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meddled:
    pool: str
    how: Meddling


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """The whole machine sleeps."""

    lasting: timedelta


Input = Tweeted | TakenBack | Changed | Resized | Opened | Throttled | Judged
Fault = Killed | Stalled | Lost | Failing | Outage | Wiped | Meddled | Frozen


BEHIND = "behind "
"""How the label of a point begins that stands behind a call's effect; before it stands the call alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    what: Input | Fault
    step: int = 0
    point: tuple[str, int] | None = None
    """A thread and the number of its switch point, two a port call: before and behind its effect. Instead of a step."""

    def __str__(self) -> str:
        when = f"step {self.step}" if self.point is None else f"{self.point[0]}, point {self.point[1]}"
        return f"{when}: {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    seed: int
    steps: int
    happenings: Sequence[Happening] = ()
    pumps: int = 1
    workers: int = 1
    """Of each pool."""
    collapse: timedelta | None = None
    crowd: int = 0
    """Followers next to each other, whose inbox row names many members."""
    rolls_up: timedelta = timedelta(0)
    """How often who opened the tab becomes active; 0: never."""
    threshold: int = 1_000
    """From so many followers on an account is a celebrity."""
    resizes: bool = False
    """Routers look at sizes anew for each mention, as they change so quickly here."""
    graph: bool = False
    """Follows and wants go through the log, and an indexer makes sets of them. Else they are so at once."""

    devices: bool = False
    """Devices go through the log, and a switchboard makes a bitmap of who has one. Else it is so at once."""

    platforms: tuple[Platform, ...] = ONE
    """Providers. Where there are several, some people have a device of each, and others of another one alone."""

    desk: bool = False
    """There is an operator, who lets go again and again what is held."""

    @property
    def takes_back(self) -> bool:
        """Then there is a retractor, and somebody who says so to the API."""
        return any(isinstance(happening.what, TakenBack) for happening in self.happenings)

    def with_more(self, *more: Happening) -> "Script":
        return replace(self, happenings=(*self.happenings, *more))
