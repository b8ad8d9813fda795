"""A row of who follows whom: taken, or told with the reason why not."""

from collections.abc import Iterable

from notifier.adapters.tables.layout import Found, Layout, Quick, Reject, Unreadable, fault_of, plain
from notifier.domain.ids import UserId
from notifier.ports.imports import Numbers, Rows

COLUMNS = FOLLOWER, FOLLOWED = "follower", "followed"
HIMSELF = "Nobody follows himself."


def taken(found: Iterable[tuple[int, Found]], read: int, reject: Reject) -> Rows:
    followers, followed = list[UserId](), list[UserId]()
    for number, row in found:
        if row is None:
            continue
        if isinstance(row, Unreadable):
            reject(number, row.why)
        elif not (plain(row[0]) and plain(row[1]) and row[0] != row[1]) and (why := _fault(*row)):
            reject(number, why)
        else:
            followers.append(UserId(str(row[0])))
            followed.append(UserId(str(row[1])))
    return Rows(followers=followers, followed=followed, read=read)


def _fault(follower: object, followed: object) -> str | None:
    himself = HIMSELF if str(follower) == str(followed) else None
    return fault_of(FOLLOWER, follower) or fault_of(FOLLOWED, followed) or himself


def _quick() -> Quick[Rows | Numbers]:
    from notifier.adapters.tables.edge_columns import quick

    return quick


EDGES: Layout[Rows | Numbers] = Layout(of="a follow", needed=COLUMNS, taken=taken, quick=_quick)
