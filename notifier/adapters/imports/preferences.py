"""A row of what a person wants: of one account, or of everything."""

from collections.abc import Iterable
from datetime import datetime

from notifier.adapters.imports.accounts import USER, user
from notifier.adapters.imports.layout import Found, Layout, Reject
from notifier.adapters.imports.values import Unfit, each, flag, hours, moment, one_of, zone
from notifier.domain.users.import_rows import PreferenceRow
from notifier.domain.users.subject_preferences import NEVER, Volume
from notifier.ports.imports import Batch

ACCOUNT, VOLUME, MUTED, PUSH, QUIET, ZONE = "account", "volume", "muted", "push", "quiet", "zone"

_OF_EVERYTHING = tuple(volume for volume in Volume if volume is not Volume.DEFAULT)


def _preferences(found: Iterable[tuple[int, Found]], read: int, reject: Reject) -> Batch[PreferenceRow]:
    return Batch(rows=list(each(found, reject, _preference)), read=read)


def _preference(values: Iterable[object]) -> PreferenceRow:
    who, account, volume, muted, push, quiet, at = values
    of = None if account is None or account == "" else user(ACCOUNT, account)
    said = one_of(VOLUME, volume, _OF_EVERYTHING if of is None else tuple(Volume))
    row = PreferenceRow(
        user=user(USER, who),
        account=of,
        volume=None if said is None else Volume(said),
        visible_from=_muted(muted),
        push=flag(PUSH, push),
        quiet=hours(QUIET, quiet),
        zone=zone(ZONE, at),
    )
    if of is None and row.visible_from is not None:
        raise Unfit(f"{MUTED} is of an account, and the row names none.")
    if of is not None and (row.push, row.quiet, row.zone) != (None, None, None):
        raise Unfit(f"{PUSH}, {QUIET} and {ZONE} are of everything, and the row names an account.")
    return row


def _muted(value: object) -> datetime | None:
    """Who isn't muted is as nobody says anything."""
    try:
        return NEVER if flag(MUTED, value) else None
    except Unfit:
        return moment(MUTED, value)


PREFERENCES: Layout[Batch[PreferenceRow]] = Layout(
    of="a preference",
    needed=(USER,),
    optional=(ACCOUNT, VOLUME, MUTED, PUSH, QUIET, ZONE),
    any_of=(VOLUME, MUTED, PUSH, QUIET, ZONE),
    taken=_preferences,
)
