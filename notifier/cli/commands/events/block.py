"""`notifier block` and `unblock`: tells the running service who blocks whom, as the graph service would."""

from collections.abc import Mapping
from datetime import UTC, datetime

import click

from notifier.cli.group import example
from notifier.cli.http import EventSender, cloud_event, sends_events, sequence_at, sequence_option
from notifier.domain.upstream.validation import BLOCKED_TYPE, UNBLOCKED_TYPE

by_option = click.option("--by", "blocker", required=True, help="Who blocks.")


@click.command(epilog=example("notifier block @eve --by @ada"))
@click.argument("blocked")
@by_option
@sequence_option
@sends_events
def block(*, blocked: str, blocker: str, sequence: int | None, sender: EventSender) -> None:
    """Say that somebody blocks an account: each sees nothing of the other any more. Prints the receipt."""
    sender.send(event(blocker, blocked, blocks=True, sequence=sequence, now=datetime.now(UTC)))


@click.command(epilog=example("notifier unblock @eve --by @ada"))
@click.argument("blocked")
@by_option
@sequence_option
@sends_events
def unblock(*, blocked: str, blocker: str, sequence: int | None, sender: EventSender) -> None:
    """Say that somebody blocks an account no longer: what opens from now on is seen. Prints the receipt."""
    sender.send(event(blocker, blocked, blocks=False, sequence=sequence, now=datetime.now(UTC)))


def event(blocker: str, blocked: str, *, blocks: bool, sequence: int | None, now: datetime) -> Mapping[str, object]:
    """A CloudEvent as the graph service writes it. Whom it is about may be said with an @ before the name."""
    pair = {"blocker": blocker.removeprefix("@"), "blocked": blocked.removeprefix("@")}
    kind = BLOCKED_TYPE if blocks else UNBLOCKED_TYPE
    return cloud_event(kind, {**pair, "sequence": sequence or sequence_at(now)}, now)
