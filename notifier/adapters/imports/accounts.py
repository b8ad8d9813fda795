"""A row of an account: who it is, and what the platform says of it."""

from collections.abc import Iterable

from notifier.adapters.imports.layout import Found, Layout, Reject, fault_of, plain
from notifier.adapters.imports.values import Unfit, each, flag
from notifier.domain.audience.account_flags import Flag
from notifier.domain.ids import UserId
from notifier.domain.users.import_rows import AccountRow
from notifier.ports.imports import Batch

USER = "user"


def user(name: str, value: object) -> UserId:
    if not plain(value) and (why := fault_of(name, value)):
        raise Unfit(why)
    return UserId(str(value))


def _accounts(found: Iterable[tuple[int, Found]], read: int, reject: Reject) -> Batch[AccountRow]:
    return Batch(rows=list(each(found, reject, _account)), read=read)


def _account(values: Iterable[object]) -> AccountRow:
    who, *flags = values
    said = {name: flag(name, value) for name, value in zip(Flag, flags, strict=True)}
    return AccountRow(user=user(USER, who), said={name: on for name, on in said.items() if on is not None})


def _vips(found: Iterable[tuple[int, Found]], read: int, reject: Reject) -> Batch[AccountRow]:
    return Batch(rows=list(each(found, reject, _vip)), read=read)


def _vip(values: Iterable[object]) -> AccountRow:
    """Whoever is named is one, unless the row says no."""
    who, value = values
    return AccountRow(user=user(USER, who), said={Flag.VIP: flag(Flag.VIP, value) is not False})


FLAGS = tuple(map(str, Flag))

ACCOUNTS: Layout[Batch[AccountRow]] = Layout(of="an account", needed=(USER,), optional=FLAGS, taken=_accounts)
VIPS: Layout[Batch[AccountRow]] = Layout(of="a VIP", needed=(USER,), optional=(str(Flag.VIP),), taken=_vips)
