"""`notifier follow`: tells the running service who follows whom, as the graph service would."""

from collections.abc import Mapping
from datetime import UTC, datetime

import click

from notifier.cli.group import example
from notifier.cli.http import EventSender, cloud_event, sends_events, sequence_at, sequence_option
from notifier.domain.upstream.validation import FOLLOWED_TYPE, UNFOLLOWED_TYPE


@click.command(
    epilog=example("notifier follow --follower u8 --of nova", "notifier follow --follower u8 --of nova --end")
)
@click.option("--follower", required=True, help="Who follows.")
@click.option("--of", "followed", required=True, help="Who is followed.")
@click.option("--end", is_flag=True, help="The follower leaves.")
@sequence_option
@sends_events
def follow(*, follower: str, followed: str, end: bool, sequence: int | None, sender: EventSender) -> None:
    """Say that somebody follows somebody from now on, or no longer, and print the receipt."""
    sender.send(event(follower, followed, end=end, sequence=sequence, now=datetime.now(UTC)))


def event(follower: str, followed: str, *, end: bool, sequence: int | None, now: datetime) -> Mapping[str, object]:
    """A CloudEvent as the graph service writes it."""
    pair = {"follower": follower, "followed": followed, "sequence": sequence or sequence_at(now)}
    kind = UNFOLLOWED_TYPE if end else FOLLOWED_TYPE
    return cloud_event(kind, pair, now)
