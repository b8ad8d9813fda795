"""What stands in a column beside the ids: yes and no, moments and hours; nothing where it is empty."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, time
from typing import TypeVar

from notifier.adapters.imports.layout import Found, Reject, Unreadable
from notifier.domain.users.quiet_hours import Hours, known
from notifier.domain.users.subject_preferences import ALWAYS, NEVER

T = TypeVar("T")

LONGEST_ZONE = 64
"""Letters; the longest name of the IANA has 32."""
_SHOWN = 40
"""Characters of what can't be read: as much as one finds it by."""
_YES, _NO = frozenset({"true", "1", "yes"}), frozenset({"false", "0", "no"})


class Unfit(ValueError):
    """Why a value can't be taken, as a sentence."""


def each(found: Iterable[tuple[int, Found]], reject: Reject, read: Callable[[Iterable[object]], T]) -> Iterable[T]:
    """Of numbered rows those that can be taken; the others are told."""
    for number, row in found:
        if row is None:
            continue
        if isinstance(row, Unreadable):
            reject(number, row.why)
            continue
        try:
            yield read(row)
        except Unfit as unfit:
            reject(number, str(unfit))


def flag(name: str, value: object) -> bool | None:
    said = _text(value).lower()
    if not said:
        return None
    if said not in _YES | _NO:
        raise Unfit(f"{name} is {_shown(value)}; true, false or nothing is needed.")
    return said in _YES


def moment(name: str, value: object) -> datetime | None:
    """With its time zone."""
    if not (said := _text(value)):
        return None
    try:
        found = value if isinstance(value, datetime) else datetime.fromisoformat(said)
    except ValueError:
        raise Unfit(f"{name} is {_shown(value)}; true, or a moment as 2026-01-31T09:00:00Z is needed.") from None
    if found.tzinfo is None:
        raise Unfit(f"{name} has no time zone.")
    if not ALWAYS.year <= found.year < NEVER.year:
        raise Unfit(f"{name} is {_shown(value)}; no clock ever tells it.")
    return found.astimezone(UTC)


def hours(name: str, value: object) -> Hours | None:
    if not (said := _text(value)):
        return None
    start, _, end = said.partition("-")
    found = Hours(start=_time(name, value, start), end=_time(name, value, end))
    if found.start == found.end:
        raise Unfit(f"{name} begins and ends at different times.")
    return found


def zone(name: str, value: object) -> str | None:
    if not (said := _text(value)):
        return None
    if len(said) > LONGEST_ZONE or not known(said):
        raise Unfit(f"{name} is {_shown(value)}; a name of the IANA is needed, as Europe/Berlin.")
    return said


def one_of(name: str, value: object, choice: Iterable[str]) -> str | None:
    if not (said := _text(value)):
        return None
    if said not in {*choice}:
        raise Unfit(f"{name} is {_shown(value)}; {', '.join(choice)} or nothing is needed.")
    return said


def _time(name: str, value: object, said: str) -> time:
    try:
        found = time.fromisoformat(said.strip())
    except ValueError:
        found = None
    if found is None or f"{found:%H:%M}" != said.strip():
        raise Unfit(f"{name} is {_shown(value)}; 22:00-07:00 is how it is written.")
    return found


def _text(value: object) -> str:
    return "" if value is None else str(value).strip()


def _shown(value: object) -> str:
    said = str(value)
    return repr(said if len(said) <= _SHOWN else f"{said[:_SHOWN]}…")
