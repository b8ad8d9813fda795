"""`notifier mention`: sends one event to the running service, as the tweet service would."""

from collections.abc import Mapping
from datetime import UTC, datetime
from secrets import token_hex

import click

from notifier.cli.group import example
from notifier.cli.http import EventSender, cloud_event, sends_events
from notifier.domain.upstream.validation import EVENT_TYPE


@click.command(epilog=example('notifier mention --author ada --of nova --text "hello @nova"'))
@click.option("--author", required=True, help="Who wrote the tweet.")
@click.option("--of", "mentioned", required=True, multiple=True, help="Who is mentioned; may be given several times.")
@click.option("--text", default=None, help="The tweet.  [default: hello and the names]")
@click.option(
    "--id", "id", default=None, help="The event's id; the same id again is a duplicate.  [default: a new one]"
)
@click.option("--protected", is_flag=True, help="The author's tweets are for the author's followers only.")
@sends_events
def mention(
    *,
    author: str,
    mentioned: tuple[str, ...],
    text: str | None,
    id: str | None,
    protected: bool,
    sender: EventSender,
) -> None:
    """Send one event, and print its receipt."""
    name = id or token_hex(8)
    words = text if text is not None else " ".join(["hello", *(f"@{each}" for each in mentioned)])
    sender.send(event(name, author, mentioned, text=words, protected=protected, now=datetime.now(UTC)))


def event(
    id: str, author: str, mentioned: tuple[str, ...], *, text: str, protected: bool, now: datetime
) -> Mapping[str, object]:
    """A CloudEvent as the tweet service writes it."""
    tweet = {"tweet": f"t-{id}", "author": author, "mentions": list(mentioned), "text": text, "protected": protected}
    return cloud_event(EVENT_TYPE, tweet, now, id)
