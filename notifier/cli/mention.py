"""`notifier mention`: sends one event to the running service, as the tweet service would."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex

import click

from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import print_facts, print_json
from notifier.cli.service import ask
from notifier.cli.verbs import example
from notifier.config import Settings
from notifier.domain.event import EVENT_TYPE


@click.command(epilog=example('notifier mention --author ada --of nova --text "hello @nova"'))
@click.option("--author", required=True, help="Who wrote the tweet.")
@click.option("--of", "mentioned", required=True, multiple=True, help="Who is mentioned; may be given several times.")
@click.option("--text", default=None, help="The tweet.  [default: hello and the names]")
@click.option(
    "--id", "id", default=None, help="The event's id; the same id again is a duplicate.  [default: a new one]"
)
@click.option("--protected", is_flag=True, help="The author's tweets are for the author's followers only.")
@click.option("--url", default=None, help="Another service than the one of the data folder.")
@click.option("--key", default=None, help="Its service key.")
@data_option
@json_option
def mention(
    *,
    author: str,
    mentioned: tuple[str, ...],
    text: str | None,
    id: str | None,
    protected: bool,
    url: str | None,
    key: str | None,
    data: Path | None,
    as_json: bool,
) -> None:
    """Send one event, and print its receipt."""
    url, key = (url, key) if url and key else _where(settings_for(data), url, key)
    name = id or token_hex(8)
    words = text if text is not None else " ".join(["hello", *(f"@{each}" for each in mentioned)])
    body = event(name, author, mentioned, text=words, protected=protected, now=datetime.now(UTC))
    receipt = ask(f"{url}/v1/events", key, json.dumps(body).encode(), "application/cloudevents+json")
    if as_json:
        print_json(receipt)
    else:
        print_facts(receipt)


def _where(settings: Settings, url: str | None, key: str | None) -> tuple[str, str]:
    """Another service may share the folder's secret, whether or not anything runs on the folder."""
    from notifier.api.keys import keys_of
    from notifier.cli.ready import read_ready

    if url:
        if not settings.data.is_dir():
            raise click.UsageError(f"--url needs --key: there is no folder {settings.data} whose key it could be.")
        return url, keys_of(settings).service_key
    ready = read_ready(settings.data)
    return url or ready.url, key or ready.service_key


def event(
    id: str, author: str, mentioned: tuple[str, ...], *, text: str, protected: bool, now: datetime
) -> Mapping[str, object]:
    """A CloudEvent as the tweet service writes it."""
    tweet = {"tweet": f"t-{id}", "author": author, "mentions": list(mentioned), "text": text, "protected": protected}
    head = {"specversion": "1.0", "type": EVENT_TYPE, "source": "notifier-cli", "id": id, "time": now.isoformat()}
    return {**head, "data": tweet}
