"""What `notifier import` brings in: of each kind of rows what they have in them, and who makes something of them."""

from datetime import datetime

from notifier import topics
from notifier.cli.commands.import_.loader import Freight
from notifier.domain.users.import_rows import AccountRow, PreferenceRow
from notifier.flow.imports.accounts import Accounts
from notifier.flow.imports.followers import Followers
from notifier.flow.imports.preferences import Preferences
from notifier.ports.imports import Batch, Numbers, Rows
from notifier.profiles.import_sources import ACCOUNTS, EDGES, PREFERENCES, VIPS


def follows(since: datetime) -> Freight[Rows | Numbers]:
    return Freight(
        name="followers",
        layout=EDGES,
        matter=lambda p: Followers(directory=p.directory, follows=p.follows, log=p.log, since=since),
        left="follows",
        stream=topics.FOLLOWS,
        as_read=False,
    )


def accounts(*, ranges: bool) -> Freight[Batch[AccountRow]]:
    return Freight(
        name="users",
        layout=ACCOUNTS,
        matter=lambda p: Accounts(directory=p.directory, flags=p.flags, log=p.log, ranges=ranges),
        left="shards",
        stream=topics.USERS,
        as_read=True,
    )


def vips() -> Freight[Batch[AccountRow]]:
    return Freight(
        name="vip",
        layout=VIPS,
        matter=lambda p: Accounts(directory=p.directory, flags=p.flags, log=p.log, ranges=False),
        left="shards",
        stream=topics.USERS,
        as_read=True,
    )


def wishes() -> Freight[Batch[PreferenceRow]]:
    return Freight(
        name="preferences",
        layout=PREFERENCES,
        matter=lambda p: Preferences(
            directory=p.directory, wants=p.wants, overalls=p.overalls, log=p.log, clock=p.clock
        ),
        left="shards",
        stream=topics.FOLLOWS,
        as_read=True,
    )
