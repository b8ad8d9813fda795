"""`notifier follow`: tells the running service who follows whom, as the graph service would."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex

import click

from notifier.cli.group import example
from notifier.cli.http import deliver, key_option, print_receipt, url_option, where
from notifier.cli.options import data_option, json_option
from notifier.domain.upstream.validation import FOLLOWED_TYPE, HIGHEST_SEQUENCE, UNFOLLOWED_TYPE


@click.command(
    epilog=example("notifier follow --follower u8 --of nova", "notifier follow --follower u8 --of nova --end")
)
@click.option("--follower", required=True, help="Who follows.")
@click.option("--of", "followed", required=True, help="Who is followed.")
@click.option("--end", is_flag=True, help="The follower leaves.")
@click.option(
    "--sequence",
    type=click.IntRange(1, HIGHEST_SEQUENCE),
    default=None,
    help="Of the pair; the highest counts.  [default: microseconds since 1970]",
)
@url_option
@key_option
@data_option
@json_option
def follow(
    *,
    follower: str,
    followed: str,
    end: bool,
    sequence: int | None,
    url: str | None,
    key: str | None,
    data: Path | None,
    as_json: bool,
) -> None:
    """Say that somebody follows somebody from now on, or no longer, and print the receipt."""
    url, key = where(data, url, key)
    body = event(follower, followed, end=end, sequence=sequence, now=datetime.now(UTC))
    print_receipt(deliver(url, key, body), as_json=as_json)


def event(follower: str, followed: str, *, end: bool, sequence: int | None, now: datetime) -> Mapping[str, object]:
    """A CloudEvent as the graph service writes it."""
    pair = {"follower": follower, "followed": followed, "sequence": sequence or int(now.timestamp() * 1_000_000)}
    kind = UNFOLLOWED_TYPE if end else FOLLOWED_TYPE
    head = {"specversion": "1.0", "type": kind, "source": "notifier-cli", "id": token_hex(8), "time": now.isoformat()}
    return {**head, "data": pair}
