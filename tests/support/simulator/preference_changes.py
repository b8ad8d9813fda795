"""Changes of what people want and are: how each is said, what stands at once, and what the oracle hears of it.

A new kind of change is one function in one of the two tables, and a word of the oracle's if the log carries it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta

from notifier.domain.ids import Kind, Subject, UserId
from notifier.domain.upstream.graph_changes import Deed, GraphChange, GraphRecord
from notifier.domain.upstream.validation import BLOCKED_TYPE, FOLLOWED_TYPE, UNBLOCKED_TYPE, UNFOLLOWED_TYPE
from notifier.domain.users.account_preferences import OverallWish, OverallWord
from notifier.domain.users.quiet_hours import Hours
from notifier.domain.users.subject_preferences import ALWAYS, NEVER, Volume, Wish, Word
from notifier.domain.users.user_blocks import PartingChange
from notifier.flow.intake.gateway import IntakeStatus
from notifier.ports.directory import Directory
from notifier.wiring.system import System
from tests.support.example_event import accept
from tests.support.oracle import FOR_EVER, Arranged, Asked, Parted, Person, Saying, Told
from tests.support.simulator.script import Changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Mouth:
    """By which people and the graph service speak; raises Unavailable or Full, and then may or may not be heard."""

    system: System
    asks: Callable[[UserId, Subject, Wish], object]
    arranges: Callable[[UserId, OverallWish], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A change on its way, the same however often it is said."""

    changed: Changed
    sequence: int
    at: datetime

    @property
    def kind(self) -> str:
        return self.changed.what.partition(":")[0]

    def __call__(self, mouth: Mouth) -> None:
        SAID[self.kind](mouth, self)


def _told(mouth: Mouth, said: Said) -> None:
    changed, kind = said.changed, FOLLOWED_TYPE if said.kind == "follow" else UNFOLLOWED_TYPE
    _sent(mouth, said, kind, {"follower": changed.person, "followed": changed.whom})


def _parted(mouth: Mouth, said: Said) -> None:
    changed, kind = said.changed, BLOCKED_TYPE if said.kind == "block" else UNBLOCKED_TYPE
    _sent(mouth, said, kind, {"blocker": changed.person, "blocked": changed.whom})


def _sent(mouth: Mouth, said: Said, kind: str, pair: Mapping[str, object]) -> None:
    data = {**pair, "sequence": said.sequence}
    event = {"specversion": "1.0", "type": kind, "source": "graph", "time": said.at.isoformat(), "data": data}
    receipt = accept(mouth.system, event | {"id": f"{said.changed}"})
    assert receipt.answer is IntakeStatus.ACCEPTED, receipt


def _muted(mouth: Mouth, said: Said) -> None:
    _wished(mouth, said, Wish(muted_until=NEVER))


def _unmuted(mouth: Mouth, said: Said) -> None:
    _wished(mouth, said, Wish(muted_until=ALWAYS))


def _volume(mouth: Mouth, said: Said) -> None:
    _wished(mouth, said, Wish(volume=Volume(said.changed.what.partition(":")[2])))


def _wished(mouth: Mouth, said: Said, wish: Wish) -> None:
    subject = Subject(Kind.MENTION, UserId(said.changed.whom))
    mouth.asks(UserId(said.changed.person), subject, wish)


def _overall(mouth: Mouth, said: Said) -> None:
    volume = Volume(said.changed.what.partition(":")[2])
    mouth.arranges(UserId(said.changed.person), OverallWish(volume=volume))


def _alerts(mouth: Mouth, said: Said) -> None:
    mouth.arranges(UserId(said.changed.person), OverallWish(push=said.changed.what == "alerts:on"))


def _quiet(mouth: Mouth, said: Said) -> None:
    mouth.arranges(UserId(said.changed.person), OverallWish(quiet=quiet_of(said.changed.what.partition(":")[2])))


def quiet_of(words: str) -> Hours:
    start, end = (time(int(hour)) for hour in words.split("-"))
    return Hours(start=start, end=end)


SAID: Mapping[str, Callable[[Mouth, Said], None]] = {
    "follow": _told,
    "unfollow": _told,
    "block": _parted,
    "unblock": _parted,
    "mute": _muted,
    "unmute": _unmuted,
    "volume": _volume,
    "overall": _overall,
    "alerts": _alerts,
    "quiet": _quiet,
}
"""What goes through the log, where there is an indexer to hear it."""


def _vip(person: Person, _: Changed) -> Person:
    return replace(person, vip=not person.vip)


def _push(person: Person, _: Changed) -> Person:
    return replace(person, push=not person.push)


def _idle(person: Person, changed: Changed) -> Person:
    return replace(person, idle=timedelta(hours=int(changed.what.partition(":")[2])))


def _night(person: Person, changed: Changed) -> Person:
    start, end = map(int, changed.what.partition(":")[2].split("-"))
    return replace(person, quiet=(start, end))


AT_ONCE: Mapping[str, Callable[[Person, Changed], Person]] = {
    "vip": _vip,
    "push": _push,
    "idle": _idle,
    "quiet": _night,
}
"""What is set as it is said: the person behind it."""


def heard(record: GraphRecord, directory: Directory) -> Sequence[Saying]:
    """What the log carries, in the oracle's words, to each whom it is about."""
    if record.change is not None:
        return [_follow(record.change)]
    if record.overall is not None:
        return [_arranged(record.overall, directory)]
    if record.parting is not None:
        return _apart(record.parting)
    return [_want(record.word, directory)] if record.word is not None else []


def _follow(change: GraphChange) -> Told:
    left = change.deed is Deed.UNFOLLOW
    return Told(person=change.follower, owner=change.followed, sequence=change.sequence, at=change.at, left=left)


def _apart(change: PartingChange) -> Sequence[Parted]:
    until = FOR_EVER if change.blocks else change.at
    pair = (change.blocker, change.blocked, False), (change.blocked, change.blocker, True)
    return [
        Parted(person=person, other=other, theirs=theirs, sequence=change.sequence, until=until)
        for person, other, theirs in pair
    ]


def _want(word: Word, directory: Directory) -> Asked:
    person = directory.users([word.member])[word.member]
    volume = None if word.volume is None else str(word.volume)
    return Asked(person=person, owner=word.subject.owner, at=word.at, volume=volume, since=word.visible_from)


def _arranged(word: OverallWord, directory: Directory) -> Arranged:
    return Arranged(
        person=directory.users([word.member])[word.member],
        at=word.at,
        volume=None if word.volume is None else str(word.volume),
        since=word.visible_from,
        default_since=word.default_from,
        alerts=word.push,
        quiet=None if word.quiet is None else (word.quiet.start.hour, word.quiet.end.hour),
    )
