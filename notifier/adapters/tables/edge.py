"""A row of who follows whom: taken, or told with the reason why not."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from notifier.domain.event import LONGEST_ID, fault
from notifier.domain.subject import UserId
from notifier.ports.edges import Rows

COLUMNS = FOLLOWER, FOLLOWED = "follower", "followed"
HIMSELF = "Nobody follows himself."

Reject = Callable[[int, str], None]
"""A row, counted from 1, and why it isn't taken."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What stands in a row's place."""

    why: str


Found = tuple[object, object] | Unreadable | None
"""Follower and followed; None of an empty line."""


def taken(found: Iterable[tuple[int, Found]], read: int, reject: Reject) -> Rows:
    """Of numbered rows, up to here."""
    followers, followed = list[UserId](), list[UserId]()
    for number, row in found:
        if row is None:
            continue
        if isinstance(row, Unreadable):
            reject(number, row.why)
        elif not (_plain(row[0]) and _plain(row[1]) and row[0] != row[1]) and (why := _fault(*row)):
            reject(number, why)
        else:
            followers.append(UserId(str(row[0])))
            followed.append(UserId(str(row[1])))
    return Rows(followers=followers, followed=followed, read=read)


def _plain(value: object) -> bool:
    """As nearly all are: nothing is wrong with it."""
    return isinstance(value, str) and 0 < len(value) <= LONGEST_ID and value.isprintable()


def _fault(follower: object, followed: object) -> str | None:
    for name, value in ((FOLLOWER, follower), (FOLLOWED, followed)):
        if value is None:
            return f"{name} is missing."
        if isinstance(value, bool) or not isinstance(value, str | int):
            return f"{name} is neither text nor a whole number."
        if why := fault(str(value)):
            return f"{name} {why}."
    return HIMSELF if str(follower) == str(followed) else None
