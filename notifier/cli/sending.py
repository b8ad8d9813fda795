"""Events that verbs send to a running service: where it is, and its receipt."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from notifier.cli.options import settings_for
from notifier.cli.output import print_facts, print_json
from notifier.cli.service import ask
from notifier.domain.errors import Refused

url_option = click.option("--url", default=None, help="Another service than the one of the data folder.")
key_option = click.option("--key", default=None, help="Its service key.")


def where(data: Path | None, url: str | None, key: str | None) -> tuple[str, str]:
    """The service and its key. Another one may share the folder's secret, whether or not anything runs there."""
    from notifier.api.auth.secrets import keys_of
    from notifier.cli.ready import read_ready

    if url and key:
        return url, key
    settings = settings_for(data)
    if url:
        if not settings.data.is_dir():
            raise click.UsageError(f"--url needs --key: there is no folder {settings.data} whose key it could be.")
        return url, keys_of(settings).service_key
    ready = read_ready(settings.data)
    return ready.url, key or ready.service_key


def deliver(url: str, key: str, event: Mapping[str, object]) -> Mapping[str, object]:
    """The receipt."""
    return ask(f"{url}/v1/events", key, json.dumps(event).encode(), "application/cloudevents+json")


def deliver_all(url: str, key: str, events: Sequence[Mapping[str, object]]) -> Sequence[Mapping[str, object]]:
    """The receipts of as many. Raises Refused where one isn't taken, with the words of the first; the others are."""
    body = json.dumps(events).encode()
    results: list[dict[str, Any]] = ask(f"{url}/v1/events", key, body, "application/cloudevents-batch+json")["results"]  # type: ignore[assignment] # as the service answers
    for refusal in (result["problem"] for result in results if "problem" in result):
        raise Refused(f"{refusal.get('detail') or refusal.get('title')} What isn't said here was taken.")
    return results


def print_receipt(receipt: Mapping[str, object], *, as_json: bool) -> None:
    if as_json:
        print_json(receipt)
    else:
        print_facts(receipt)
