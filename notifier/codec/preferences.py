"""What a person says of everything, as the stores keep it: a text for each thing that was said something of."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, time
from typing import Any

from notifier.codec.storage import from_ms, to_ms
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import MentionsAllowed
from notifier.domain.ids import Member
from notifier.domain.users.account_preferences import THINGS, Asleep, Overall, OverallWord, Unwanted, spares
from notifier.domain.users.quiet_hours import Hours
from notifier.domain.users.subject_preferences import ALWAYS, Volume

Told = tuple[tuple[str, str], ...]
"""Things and texts of one member, in the order of the things."""


def said(word: OverallWord) -> Mapping[str, str]:
    return {thing: _text(value) for thing in THINGS if (value := getattr(word, thing)) is not None}


def overall_of(things: Mapping[str, tuple[str, datetime]]) -> Overall:
    """By what was said of each thing, and when. What a later version of this said is passed over."""
    known = {thing: _READ[thing](text) for thing, (text, _) in things.items() if thing in _READ}
    return Overall(at=max((at for _, at in things.values()), default=ALWAYS), **known)


def spared(
    told: Iterable[tuple[Member, Told]], own: Mapping[Member, Volume], burst: Burst, now: datetime
) -> Iterator[tuple[Member, Unwanted | Asleep]]:
    """Those whose phones stay silent for it by what they say of everything; `own` are their words of its subject.

    Judged once for all who say the same: of many shards' words few differ.
    """
    judged: dict[tuple[Told, Volume], Unwanted | Asleep | None] = {}
    for member, things in told:
        case = things, own.get(member, Volume.DEFAULT)
        if case not in judged:
            judged[case] = spares(overall_of({thing: (text, ALWAYS) for thing, text in things}), case[1], burst, now)
        if (found := judged[case]) is not None:
            yield member, found


def _text(value: object) -> str:
    match value:
        case bool():
            return "on" if value else "off"
        case datetime():
            return str(to_ms(value))
        case Hours():
            return f"{value.start:%H:%M}-{value.end:%H:%M}"
        case _:
            return str(value)


def _hours(text: str) -> Hours:
    start, _, end = text.partition("-")
    return Hours(start=time.fromisoformat(start), end=time.fromisoformat(end))


def _moment(text: str) -> datetime:
    return from_ms(int(text))


_READ: Mapping[str, Callable[[str], Any]] = {
    "volume": Volume,
    "visible_from": _moment,
    "default_from": _moment,
    "push": "on".__eq__,
    "quiet": _hours,
    "zone": str,
    "digest_hour": int,
    "mentions": MentionsAllowed,
}
