"""Command `notifier inbox`: shows the first page of a user's inbox."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from notifier.cli.command_groups_and_errors import example
from notifier.cli.options import AccountParam, data_option, json_option, settings_for
from notifier.cli.output import (
    cell,
    console,
    grid,
    is_terminal,
    iso_time,
    print_json,
    print_sentence,
    relative_time,
    styled,
)
from notifier.config import Settings
from notifier.domain.ids import UserId
from notifier.domain.users.digest import Digest, date_of
from notifier.flow.inbox.gap_fetch import seq_of
from notifier.flow.inbox.page import Badge, DigestItem, InboxItem, Page
from notifier.ports.all_ports import ReadPorts

TOKEN_LIFETIME = timedelta(minutes=1)
"""Lifetime of the token for one request."""


@click.command(epilog=example("notifier inbox u7", "notifier inbox u7 --limit 5 --json"))
@click.argument("user", type=AccountParam())
@click.option("--limit", type=click.IntRange(1, 100), default=20, show_default=True, help="Number of items.")
@click.option("--url", default=None, help="URL of a service to ask, instead of reading the stores.")
@click.option(
    "--token",
    default=None,
    help="The user's token for that service.  [default: one signed with the secret of the data folder]",
)
@data_option
@json_option
def inbox(*, user: UserId, limit: int, url: str | None, token: str | None, data: Path | None, as_json: bool) -> None:
    """Show the first page of a user's inbox, and the badge count."""
    from notifier.cli.opened_stores import open_stores

    settings = settings_for(data)
    if url:
        result = _page_over_http(url, token or _token(settings, user), user, limit)
    else:
        with open_stores(settings) as stores:
            result = stores.run_query(read_first_page(stores.connect_reads, user, limit))
    if as_json:
        print_json(result)
    else:
        _print_page(result)


async def read_first_page(connect: Callable[[], ReadPorts], user: UserId, limit: int) -> dict[str, object]:
    from notifier.wiring.inbox import build_uncached_inbox

    page, badge = await build_uncached_inbox(connect()).open(user, limit=limit)
    return page_json(user, page, badge)


def page_json(user: str, page: Page, badge: Badge | None) -> dict[str, object]:
    return {
        "user": user,
        "badge": {"count": badge.count, "more": badge.more} if badge else None,
        "items": [_item_json(item, page.view.now) for item in page.items],
        "more": page.next is not None,
        "partial": page.partial,
    }


def _item_json(item: InboxItem, now: datetime) -> Mapping[str, object]:
    """Return an item with the field names of the HTTP API. `burst` has the burst key instead of the opaque id."""
    from notifier.api.schemas.inbox_items import burst_text, digest_text

    if isinstance(item, DigestItem):
        digest = item.digest
        return {
            "burst": str(digest.key),
            "subject": str(digest.key.subject),
            "seq": seq_of(digest, now),
            "opened_at": iso_time(digest.opened_at),
            "count": digest.count,
            "names": [name for name, _ in digest.accounts],
            "more": digest.more,
            "text": digest_text(digest),
            "tweet": None,
            "unread": item.unread,
            "digest": digest_json(digest),
        }
    burst = item.burst
    return {
        "burst": str(burst.key),
        "subject": str(burst.key.subject),
        "seq": seq_of(burst, now),
        "opened_at": iso_time(burst.opened_at),
        "count": burst.count,
        "names": list(item.mentioners),
        "more": burst.more_mentioners,
        "text": burst_text(burst, item.mentioners),
        "tweet": item.tweet,
        "unread": item.unread,
        "digest": None,
    }


def digest_json(digest: Digest) -> Mapping[str, object]:
    return {
        "date": str(date_of(digest.key)),
        "accounts": [{"account": name, "count": count} for name, count in digest.accounts],
        "bursts": [str(burst.key) for burst in digest.newest],
        "more": digest.more,
    }


def _table_row(item: Mapping[str, Any]) -> tuple[str, str, str]:
    opened_at = datetime.fromisoformat(item["opened_at"])
    return "*" if item["unread"] else " ", relative_time(opened_at), item["text"]


def _token(settings: Settings, user: UserId) -> str:
    from datetime import UTC

    from notifier.cli.commands.token import sign_user_token
    from notifier.cli.opened_stores import require_folder

    require_folder(settings.data)
    return sign_user_token(settings, user, datetime.now(UTC), TOKEN_LIFETIME)


def _page_over_http(url: str, token: str, user: str, limit: int) -> dict[str, object]:
    from notifier.cli.running_service import request_json

    response = request_json(f"{url.rstrip('/')}/v1/inbox?limit={limit}", token)
    return {
        "user": user,
        **{key: response[key] for key in ("badge", "items", "partial")},
        "more": bool(response["next"]),
    }


def _print_page(page: Mapping[str, object]) -> None:
    badge, items = page["badge"], page["items"]
    assert isinstance(items, list)
    unread = f"{badge['count']}{'+' if badge['more'] else ''} unread" if isinstance(badge, dict) else "badge unknown"
    click.echo(f"{page['user']}: {unread}")
    if is_terminal():
        console().print(grid([styled(text) for text in _table_row(item)] for item in items))
    else:
        for item in items:
            click.echo(f"{'*' if item['unread'] else ' '} {item['opened_at']}  {cell(item['text'])}")
    if page["partial"]:
        print_sentence("The store answered only partly; some items may be missing.")
    elif page["more"]:
        print_sentence("There are older items.")
