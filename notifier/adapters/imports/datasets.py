"""Import layouts for accounts, VIPs, follows and preferences."""

from collections.abc import Iterable
from datetime import datetime

from notifier.adapters.imports.layout import (
    BulkReader,
    InvalidValue,
    Layout,
    ParsedRow,
    Reject,
    UnreadableRow,
    accepted_rows,
    fault_of,
    flag,
    hours,
    is_plain_id,
    moment,
    one_of,
    zone,
)
from notifier.domain.audience.account_flags import Flag
from notifier.domain.ids import UserId
from notifier.domain.users.import_rows import AccountRow, PreferenceRow
from notifier.domain.users.subject_preferences import NEVER, Volume
from notifier.ports.imports import FollowEdges, ImportBatch, NumberedFollowEdges

USER = "user"


def user(name: str, value: object) -> UserId:
    if not is_plain_id(value) and (why := fault_of(name, value)):
        raise InvalidValue(why)
    return UserId(str(value))


def _accounts(parsed: Iterable[tuple[int, ParsedRow]], read: int, reject: Reject) -> ImportBatch[AccountRow]:
    return ImportBatch(rows=list(accepted_rows(parsed, reject, _account)), rows_read=read)


def _account(values: Iterable[object]) -> AccountRow:
    user_id, *flags = values
    states = {name: flag(name, value) for name, value in zip(Flag, flags, strict=True)}
    return AccountRow(user=user(USER, user_id), flags={name: on for name, on in states.items() if on is not None})


def _vips(parsed: Iterable[tuple[int, ParsedRow]], read: int, reject: Reject) -> ImportBatch[AccountRow]:
    return ImportBatch(rows=list(accepted_rows(parsed, reject, _vip)), rows_read=read)


def _vip(values: Iterable[object]) -> AccountRow:
    """Read a VIP. A listed user is a VIP unless the row says no."""
    user_id, value = values
    return AccountRow(user=user(USER, user_id), flags={Flag.VIP: flag(Flag.VIP, value) is not False})


FLAGS = tuple(map(str, Flag))

ACCOUNTS: Layout[ImportBatch[AccountRow]] = Layout(
    row_kind="an account", required=(USER,), optional=FLAGS, read_batch=_accounts
)
VIPS: Layout[ImportBatch[AccountRow]] = Layout(
    row_kind="a VIP", required=(USER,), optional=(str(Flag.VIP),), read_batch=_vips
)


# Follows row by row: a row is taken, or rejected with a reason.

COLUMNS = FOLLOWER, FOLLOWED = "follower", "followed"
SELF_FOLLOW = "An account can't follow itself."


def follow_rows(parsed: Iterable[tuple[int, ParsedRow]], read: int, reject: Reject) -> FollowEdges:
    followers, followed = list[UserId](), list[UserId]()
    for number, row in parsed:
        if row is None:
            continue
        if isinstance(row, UnreadableRow):
            reject(number, row.why)
        elif not (is_plain_id(row[0]) and is_plain_id(row[1]) and row[0] != row[1]) and (why := _follow_fault(*row)):
            reject(number, why)
        else:
            followers.append(UserId(str(row[0])))
            followed.append(UserId(str(row[1])))
    return FollowEdges(followers=followers, followed=followed, rows_read=read)


def _follow_fault(follower: object, followed: object) -> str | None:
    is_self_follow = SELF_FOLLOW if str(follower) == str(followed) else None
    return fault_of(FOLLOWER, follower) or fault_of(FOLLOWED, followed) or is_self_follow


def _bulk_reader() -> BulkReader[FollowEdges | NumberedFollowEdges]:
    from notifier.adapters.imports.parquet import bulk_follows  # an extra: CSV and NDJSON are read without it

    return bulk_follows


EDGES: Layout[FollowEdges | NumberedFollowEdges] = Layout(
    row_kind="a follow", required=COLUMNS, read_batch=follow_rows, bulk_reader=_bulk_reader
)


# Preferences of a user: for one account, or for everything.

ACCOUNT, VOLUME, MUTED, PUSH, QUIET, ZONE = "account", "volume", "muted", "push", "quiet", "zone"

_OF_EVERYTHING = tuple(volume for volume in Volume if volume is not Volume.DEFAULT)


def _preferences(parsed: Iterable[tuple[int, ParsedRow]], read: int, reject: Reject) -> ImportBatch[PreferenceRow]:
    return ImportBatch(rows=list(accepted_rows(parsed, reject, _preference)), rows_read=read)


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
        raise InvalidValue(f"{MUTED} requires an account, but the row names none.")
    if account_id is not None and (row.push, row.quiet, row.zone) != (None, None, None):
        raise InvalidValue(f"{PUSH}, {QUIET} and {ZONE} apply to all notifications, but the row names an account.")
    return row


def _muted(value: object) -> datetime | None:
    """Return NEVER for a permanent mute, or the end of a mute. Not muted is the same as no value."""
    try:
        return NEVER if flag(MUTED, value) else None
    except InvalidValue:
        return moment(MUTED, value)


PREFERENCES: Layout[ImportBatch[PreferenceRow]] = Layout(
    row_kind="a preference",
    required=(USER,),
    optional=(ACCOUNT, VOLUME, MUTED, PUSH, QUIET, ZONE),
    any_of=(VOLUME, MUTED, PUSH, QUIET, ZONE),
    read_batch=_preferences,
)
