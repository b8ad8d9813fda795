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
    id_fault,
    is_plainly_valid_text_id,
    parse_bool,
    parse_choice,
    parse_quiet_hours,
    parse_time,
    parse_zone,
)
from notifier.domain.audience.account_flags import Flag
from notifier.domain.ids import UserId
from notifier.domain.users.import_rows import AccountRow, PreferenceRow
from notifier.domain.users.subject_preferences import NEVER, Volume
from notifier.ports.import_batches_and_key_sort import FollowEdges, ImportBatch, NumericIdFollowEdges

USER = "user"


def parse_user(name: str, value: object) -> UserId:
    if not is_plainly_valid_text_id(value) and (fault := id_fault(name, value)):
        raise InvalidValue(fault)
    return UserId(str(value))


def _accounts(
    numbered_rows: Iterable[tuple[int, ParsedRow]], rows_read: int, reject: Reject
) -> ImportBatch[AccountRow]:
    return ImportBatch(rows=list(accepted_rows(numbered_rows, reject, _account)), rows_read=rows_read)


def _account(values: Iterable[object]) -> AccountRow:
    user_id, *flags = values
    states = {name: parse_bool(name, value) for name, value in zip(Flag, flags, strict=True)}
    return AccountRow(
        user=parse_user(USER, user_id), flags={name: state for name, state in states.items() if state is not None}
    )


def _vips(numbered_rows: Iterable[tuple[int, ParsedRow]], rows_read: int, reject: Reject) -> ImportBatch[AccountRow]:
    return ImportBatch(rows=list(accepted_rows(numbered_rows, reject, _vip)), rows_read=rows_read)


def _vip(values: Iterable[object]) -> AccountRow:
    """Return the row of a listed user, who is a VIP unless the column `vip` is false."""
    user_id, value = values
    return AccountRow(user=parse_user(USER, user_id), flags={Flag.VIP: parse_bool(Flag.VIP, value) is not False})


FLAG_COLUMNS = tuple(map(str, Flag))

ACCOUNTS: Layout[ImportBatch[AccountRow]] = Layout(
    row_kind="an account", required=(USER,), optional=FLAG_COLUMNS, read_batch=_accounts
)
VIPS: Layout[ImportBatch[AccountRow]] = Layout(
    row_kind="a VIP", required=(USER,), optional=(str(Flag.VIP),), read_batch=_vips
)


# Follows, row by row.

FOLLOW_COLUMNS = FOLLOWER, FOLLOWED = "follower", "followed"
SELF_FOLLOW = "An account can't follow itself."


def _follow_edges(numbered_rows: Iterable[tuple[int, ParsedRow]], rows_read: int, reject: Reject) -> FollowEdges:
    followers, followed = list[UserId](), list[UserId]()
    for number, row in numbered_rows:
        if row is None:
            continue
        if isinstance(row, UnreadableRow):
            reject(number, row.reason)
        elif not (is_plainly_valid_text_id(row[0]) and is_plainly_valid_text_id(row[1]) and row[0] != row[1]) and (
            fault := _follow_fault(*row)
        ):
            reject(number, fault)
        else:
            followers.append(UserId(str(row[0])))
            followed.append(UserId(str(row[1])))
    return FollowEdges(followers=followers, followed=followed, rows_read=rows_read)


def _follow_fault(follower: object, followed: object) -> str | None:
    self_follow_fault = SELF_FOLLOW if str(follower) == str(followed) else None
    return id_fault(FOLLOWER, follower) or id_fault(FOLLOWED, followed) or self_follow_fault


def _load_bulk_reader() -> BulkReader[FollowEdges | NumericIdFollowEdges]:
    from notifier.adapters.imports.parquet import bulk_follows  # needs the import extra, unlike CSV and NDJSON

    return bulk_follows


FOLLOWS: Layout[FollowEdges | NumericIdFollowEdges] = Layout(
    row_kind="a follow", required=FOLLOW_COLUMNS, read_batch=_follow_edges, load_bulk_reader=_load_bulk_reader
)


# Preferences of a user: for one account, or for everything.

ACCOUNT, VOLUME, MUTED, PUSH, QUIET, ZONE = "account", "volume", "muted", "push", "quiet", "zone"

_VOLUMES_WITHOUT_ACCOUNT = tuple(volume for volume in Volume if volume is not Volume.DEFAULT)


def _preferences(
    numbered_rows: Iterable[tuple[int, ParsedRow]], rows_read: int, reject: Reject
) -> ImportBatch[PreferenceRow]:
    return ImportBatch(rows=list(accepted_rows(numbered_rows, reject, _preference)), rows_read=rows_read)


def _preference(values: Iterable[object]) -> PreferenceRow:
    user_id, account, volume, muted, push, quiet, zone_name = values
    account_id = None if account is None or account == "" else parse_user(ACCOUNT, account)
    volume_name = parse_choice(VOLUME, volume, _VOLUMES_WITHOUT_ACCOUNT if account_id is None else tuple(Volume))
    row = PreferenceRow(
        user=parse_user(USER, user_id),
        account=account_id,
        volume=None if volume_name is None else Volume(volume_name),
        visible_from=_muted_until(muted),
        push=parse_bool(PUSH, push),
        quiet=parse_quiet_hours(QUIET, quiet),
        zone=parse_zone(ZONE, zone_name),
    )
    if account_id is None and row.visible_from is not None:
        raise InvalidValue(f"{MUTED} requires an account, but the row names none.")
    if account_id is not None and (row.push, row.quiet, row.zone) != (None, None, None):
        raise InvalidValue(f"{PUSH}, {QUIET} and {ZONE} apply to all notifications, but the row names an account.")
    return row


def _muted_until(value: object) -> datetime | None:
    """Return the end of a mute, NEVER for a permanent one, or None without a mute."""
    try:
        return NEVER if parse_bool(MUTED, value) else None
    except InvalidValue:
        return parse_time(MUTED, value, expected="true, or a time such as 2026-01-31T09:00:00Z")


PREFERENCES: Layout[ImportBatch[PreferenceRow]] = Layout(
    row_kind="a preference",
    required=(USER,),
    optional=(ACCOUNT, VOLUME, MUTED, PUSH, QUIET, ZONE),
    any_of=(VOLUME, MUTED, PUSH, QUIET, ZONE),
    read_batch=_preferences,
)
