"""The running service, as the verbs that speak HTTP ask it; its refusals become ours."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import click

from notifier.cli.options import settings_for
from notifier.cli.output import print_facts, print_json
from notifier.domain.errors import OUTAGES, NoAnswer, Refused, Unavailable

ANSWERS_WITHIN = 10.0
"""Seconds."""


def ask(url: str, key: str, body: bytes | None = None, kind: str = "application/json") -> dict[str, object]:
    """A GET, or a POST when there is a body. Raises Refused with the service's own words, Unavailable or NoAnswer."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": kind}
    try:
        with urlopen(Request(url, data=body, headers=headers), timeout=ANSWERS_WITHIN) as answer:
            return dict(json.load(answer))
    except HTTPError as error:
        with error:
            words = _words(error)
        raise (Refused(words) if error.code < 500 else Unavailable(words)) from error
    except (OSError, HTTPException) as error:
        raise NoAnswer(f"It is {url}.") from error
    except ValueError as error:
        raise Refused(f"{url}: {error}.") from error


def _words(error: HTTPError) -> str:
    """From problem+json, when that is what came."""
    try:
        problem = json.load(error)
        return f"{error.code}: {problem.get('detail') or problem.get('title')}"
    except (ValueError, AttributeError):
        return f"{error.code}: {error.reason}."


# Events that verbs send to a running service: where it is, and its receipt.

url_option = click.option("--url", default=None, help="Another service than the one of the data folder.")
key_option = click.option("--key", default=None, help="Its service key.")


def where(data: Path | None, url: str | None, key: str | None) -> tuple[str, str]:
    """The service and its key. Another one may share the folder's secret, whether or not anything runs there."""
    from notifier.api.auth.secrets import keys_of
    from notifier.cli.ready_file import read_ready

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


# Patience of long verbs: a part that is away for a while ends nothing.

GIVES_UP_AFTER = 600.0
"""Seconds of one outage."""
WAITS = 1.0


@dataclass(frozen=True, slots=True)
class Patience:
    seconds: float = GIVES_UP_AFTER

    def __call__(self, work: Callable[[], None]) -> None:
        """Does it, again after every outage. Raises the outage that lasts longer than this."""
        began, told = time.monotonic(), False
        while True:
            try:
                return work()
            except OUTAGES as outage:
                if time.monotonic() - began > self.seconds:
                    raise
                if not told:
                    click.echo(f"Waiting: {outage}", err=True)
                told = True
                time.sleep(WAITS)
