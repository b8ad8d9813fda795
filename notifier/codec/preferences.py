"""Text encoding of account preferences for the stores, one text per field."""

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
"""Field names and encoded values of one member, in the order of the fields."""


def said(word: OverallWord) -> Mapping[str, str]:
    """Encode the fields that the change sets."""
    return {field: _text(value) for field in THINGS if (value := getattr(word, field)) is not None}


def overall_of(things: Mapping[str, tuple[str, datetime]]) -> Overall:
    """Decode account preferences from each field's text and time of change.

    Fields that a newer version of this code wrote are ignored.
    """
    known = {thing: _READ[thing](text) for thing, (text, _) in things.items() if thing in _READ}
    return Overall(at=max((at for _, at in things.values()), default=ALWAYS), **known)


def spared(
    told: Iterable[tuple[Member, Told]], own: Mapping[Member, Volume], burst: Burst, now: datetime
) -> Iterator[tuple[Member, Unwanted | Asleep]]:
    """Yield members whose account preferences suppress push alerts for the burst, with the reason.

    `own` has the members' volumes for the burst's subject. Each combination of preferences is evaluated once: even
    across many shards only a few differ.
    """
    reasons: dict[tuple[Told, Volume], Unwanted | Asleep | None] = {}
    for member, fields in told:
        case = fields, own.get(member, Volume.DEFAULT)
        if case not in reasons:
            reasons[case] = spares(overall_of({field: (text, ALWAYS) for field, text in fields}), case[1], burst, now)
        if (reason := reasons[case]) is not None:
            yield member, reason


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
