"""`notifier block` and `unblock`: tells the running service who blocks whom, as the graph service would."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex

import click

from notifier.cli.group import example
from notifier.cli.http import deliver, key_option, print_receipt, url_option, where
from notifier.cli.options import data_option, json_option
from notifier.domain.upstream.validation import BLOCKED_TYPE, HIGHEST_SEQUENCE, UNBLOCKED_TYPE

by_option = click.option("--by", "blocker", required=True, help="Who blocks.")
sequence_option = click.option(
    "--sequence",
    type=click.IntRange(1, HIGHEST_SEQUENCE),
    default=None,
    help="Of the pair; the highest counts.  [default: microseconds since 1970]",
)


@click.command(epilog=example("notifier block @eve --by @ada"))
@click.argument("blocked")
@by_option
@sequence_option
@url_option
@key_option
@data_option
@json_option
def block(
    *,
    blocked: str,
    blocker: str,
    sequence: int | None,
    url: str | None,
    key: str | None,
    data: Path | None,
    as_json: bool,
) -> None:
    """Say that somebody blocks an account: each sees nothing of the other any more. Prints the receipt."""
    said = event(blocker, blocked, blocks=True, sequence=sequence, now=datetime.now(UTC))
    print_receipt(deliver(*where(data, url, key), said), as_json=as_json)


@click.command(epilog=example("notifier unblock @eve --by @ada"))
@click.argument("blocked")
@by_option
@sequence_option
@url_option
@key_option
@data_option
@json_option
def unblock(
    *,
    blocked: str,
    blocker: str,
    sequence: int | None,
    url: str | None,
    key: str | None,
    data: Path | None,
    as_json: bool,
) -> None:
    """Say that somebody blocks an account no longer: what opens from now on is seen. Prints the receipt."""
    said = event(blocker, blocked, blocks=False, sequence=sequence, now=datetime.now(UTC))
    print_receipt(deliver(*where(data, url, key), said), as_json=as_json)


def event(blocker: str, blocked: str, *, blocks: bool, sequence: int | None, now: datetime) -> Mapping[str, object]:
    """A CloudEvent as the graph service writes it. Whom it is about may be said with an @ before the name."""
    pair = {"blocker": blocker.removeprefix("@"), "blocked": blocked.removeprefix("@")}
    kind = BLOCKED_TYPE if blocks else UNBLOCKED_TYPE
    head = {"specversion": "1.0", "type": kind, "source": "notifier-cli", "id": token_hex(8), "time": now.isoformat()}
    return {**head, "data": {**pair, "sequence": sequence or int(now.timestamp() * 1_000_000)}}
