"""Import layouts for accounts, VIPs, follows and preferences."""

from collections.abc import Iterable
from datetime import datetime

from notifier.adapters.imports.layout import (
    Found,
    Layout,
    Quick,
    Reject,
    Unfit,
    UnreadableRow,
    each,
    fault_of,
    flag,
    hours,
    moment,
    one_of,
    plain,
    zone,
)
from notifier.domain.audience.account_flags import Flag
from notifier.domain.ids import UserId
from notifier.domain.users.import_rows import AccountRow, PreferenceRow
from notifier.domain.users.subject_preferences import NEVER, Volume
from notifier.ports.imports import ImportBatch, NumberedFollows, Rows

USER = "user"


def user(name: str, value: object) -> UserId:
    if not plain(value) and (why := fault_of(name, value)):
        raise Unfit(why)
    return UserId(str(value))


def _accounts(found: Iterable[tuple[int, Found]], read: int, reject: Reject) -> ImportBatch[AccountRow]:
    return ImportBatch(rows=list(each(found, reject, _account)), read=read)


def _account(values: Iterable[object]) -> AccountRow:
    user_id, *flags = values
    states = {name: flag(name, value) for name, value in zip(Flag, flags, strict=True)}
    return AccountRow(user=user(USER, user_id), said={name: on for name, on in states.items() if on is not None})


def _vips(found: Iterable[tuple[int, Found]], read: int, reject: Reject) -> ImportBatch[AccountRow]:
    return ImportBatch(rows=list(each(found, reject, _vip)), read=read)


def _vip(values: Iterable[object]) -> AccountRow:
    """Read a VIP. A listed user is a VIP unless the row says no."""
    user_id, value = values
    return AccountRow(user=user(USER, user_id), said={Flag.VIP: flag(Flag.VIP, value) is not False})


FLAGS = tuple(map(str, Flag))

ACCOUNTS: Layout[ImportBatch[AccountRow]] = Layout(of="an account", needed=(USER,), optional=FLAGS, taken=_accounts)
VIPS: Layout[ImportBatch[AccountRow]] = Layout(of="a VIP", needed=(USER,), optional=(str(Flag.VIP),), taken=_vips)


# Follows row by row: a row is taken, or rejected with a reason.

COLUMNS = FOLLOWER, FOLLOWED = "follower", "followed"
HIMSELF = "Nobody follows himself."


def taken(found: Iterable[tuple[int, Found]], read: int, reject: Reject) -> Rows:
    followers, followed = list[UserId](), list[UserId]()
    for number, row in found:
        if row is None:
            continue
        if isinstance(row, UnreadableRow):
            reject(number, row.why)
        elif not (plain(row[0]) and plain(row[1]) and row[0] != row[1]) and (why := _fault(*row)):
            reject(number, why)
        else:
            followers.append(UserId(str(row[0])))
            followed.append(UserId(str(row[1])))
    return Rows(followers=followers, followed=followed, read=read)


def _fault(follower: object, followed: object) -> str | None:
    self_follow = HIMSELF if str(follower) == str(followed) else None
    return fault_of(FOLLOWER, follower) or fault_of(FOLLOWED, followed) or self_follow


def _quick() -> Quick[Rows | NumberedFollows]:
    from notifier.adapters.imports.parquet import quick  # an extra: CSV and NDJSON are read without it

    return quick


EDGES: Layout[Rows | NumberedFollows] = Layout(of="a follow", needed=COLUMNS, taken=taken, quick=_quick)


# Preferences of a user: for one account, or for everything.

ACCOUNT, VOLUME, MUTED, PUSH, QUIET, ZONE = "account", "volume", "muted", "push", "quiet", "zone"

_OF_EVERYTHING = tuple(volume for volume in Volume if volume is not Volume.DEFAULT)


def _preferences(found: Iterable[tuple[int, Found]], read: int, reject: Reject) -> ImportBatch[PreferenceRow]:
    return ImportBatch(rows=list(each(found, reject, _preference)), read=read)


def _preference(values: Iterable[object]) -> PreferenceRow:
    user_id, account, volume, muted, push, quiet, at = values
    account_id = None if account is None or account == "" else user(ACCOUNT, account)
    volume_name = one_of(VOLUME, volume, _OF_EVERYTHING if account_id is None else tuple(Volume))
    row = PreferenceRow(
        user=user(USER, user_id),
        account=account_id,
        volume=None if volume_name is None else Volume(volume_name),
        visible_from=_muted(muted),
        push=flag(PUSH, push),
        quiet=hours(QUIET, quiet),
        zone=zone(ZONE, at),
    )
    if account_id is None and row.visible_from is not None:
        raise Unfit(f"{MUTED} is of an account, and the row names none.")
    if account_id is not None and (row.push, row.quiet, row.zone) != (None, None, None):
        raise Unfit(f"{PUSH}, {QUIET} and {ZONE} are of everything, and the row names an account.")
    return row


def _muted(value: object) -> datetime | None:
    """Return NEVER for a permanent mute, or the end of a mute. Not muted is the same as no value."""
    try:
        return NEVER if flag(MUTED, value) else None
    except Unfit:
        return moment(MUTED, value)


PREFERENCES: Layout[ImportBatch[PreferenceRow]] = Layout(
    of="a preference",
    needed=(USER,),
    optional=(ACCOUNT, VOLUME, MUTED, PUSH, QUIET, ZONE),
    any_of=(VOLUME, MUTED, PUSH, QUIET, ZONE),
    taken=_preferences,
)
