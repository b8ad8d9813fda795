"""`notifier retract`: takes back what somebody has written, as the services for tweets and accounts would."""

from collections.abc import Mapping
from datetime import UTC, datetime

import click

from notifier.cli.group import example
from notifier.cli.http import EventSender, cloud_event, sends_events
from notifier.domain.upstream.validation import DELETED_TYPE, ERASED_TYPE, PROTECTED_TYPE


@click.command(
    epilog=example("notifier retract --author ada --tweet t-1", "notifier retract --author ada --all --protected")
)
@click.option("--author", required=True, help="Who wrote it: nobody else's is taken back.")
@click.option("--tweet", default=None, help="The tweet, by the id that its event named.")
@click.option("--all", "everything", is_flag=True, help="All that the author has written so far.")
@click.option("--protected", is_flag=True, help="With --all: leave it to those who follow the author.")
@sends_events
def retract(*, author: str, tweet: str | None, everything: bool, protected: bool, sender: EventSender) -> None:
    """Take a tweet back, or all that somebody has written, and print the receipt: nobody is shown it from then on."""
    if everything is (tweet is not None):
        raise click.UsageError("Say which tweet by --tweet, or --all that the author has written.")
    if protected and not everything:
        raise click.UsageError("--protected goes with --all: a tweet alone is taken back from everybody.")
    sender.send(event(author, tweet, protected=protected, now=datetime.now(UTC)))


def event(author: str, tweet: str | None, *, protected: bool, now: datetime) -> Mapping[str, object]:
    """A CloudEvent as the service for tweets writes it, or the one for accounts."""
    whole = PROTECTED_TYPE if protected else ERASED_TYPE
    kind, said = (whole, {"user": author}) if tweet is None else (DELETED_TYPE, {"tweet": tweet, "author": author})
    return cloud_event(kind, said, now)
