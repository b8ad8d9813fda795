"""The running service, as the verbs that speak HTTP ask it; its refusals become ours."""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import wraps
from http.client import HTTPException
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import click

from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import print_facts, print_json
from notifier.domain.errors import OUTAGES, FileUnwritable, NoAnswer, NotRunning, Refused, Unavailable
from notifier.domain.upstream.validation import HIGHEST_SEQUENCE

# The ready file: where a running notifier is, and with which key to talk to it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    url: str
    service_key: str
    pids: Mapping[str, int]
    """By role, `up` and `valkey` among them."""
    data: str
    version: str
    since: str = ""
    """When `up` began, which outlives every process that it replaces."""
    insecure_dev: bool = False
    """It lets in whoever asks at this machine."""


def ready_path(data: Path) -> Path:
    """Written by `notifier up` in every data folder, whatever other file it is asked for."""
    return data / "run" / "ready.json"


def write_ready(path: Path, ready: Ready) -> None:
    """Raises FileUnwritable."""
    replace_file(path, json.dumps(asdict(ready), indent=2) + "\n")


def replace_file(path: Path, text: str) -> None:
    """Whoever reads finds the old file or the new one, never half; ours alone to read: it may hold a key.

    Raises FileUnwritable.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.touch(mode=0o600)
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise FileUnwritable(f"It is {path}: {error.strerror}.") from error


def read_ready(data: Path) -> Ready:
    """Raises NotRunning, also for a file that somebody left who was killed."""
    try:
        ready = Ready(**json.loads(ready_path(data).read_text(encoding="utf-8")))
        running = alive(ready.pids["up"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise NotRunning(f"The folder is {data}.") from error
    if not running:
        raise NotRunning(f"The folder is {data}.")
    return ready


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True


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


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSender:
    """Sends events to the service that the options of a command name."""

    url: str | None
    key: str | None
    data: Path | None
    as_json: bool

    def send(self, event: Mapping[str, object]) -> None:
        """Send one event, and print its receipt."""
        receipt = deliver(*where(self.data, self.url, self.key), event)
        if self.as_json:
            print_json(receipt)
        else:
            print_facts(receipt)

    def send_all(self, events: Sequence[Mapping[str, object]]) -> Sequence[Mapping[str, object]]:
        """Send events as one batch, and return their receipts. Raises Refused if one of them is refused."""
        return deliver_all(*where(self.data, self.url, self.key), events)


def sends_events(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options --url, --key, --data and --json to a command, which gets an EventSender as `sender`."""

    @wraps(command)
    def run(*, url: str | None, key: str | None, data: Path | None, as_json: bool, **given: object) -> None:
        command(sender=EventSender(url=url, key=key, data=data, as_json=as_json), **given)

    return url_option(key_option(data_option(json_option(run))))


sequence_option = click.option(
    "--sequence",
    type=click.IntRange(1, HIGHEST_SEQUENCE),
    default=None,
    help="Of the pair; the highest counts.  [default: microseconds since 1970]",
)


def sequence_at(now: datetime) -> int:
    return int(now.timestamp() * 1_000_000)


def cloud_event(kind: str, data: Mapping[str, object], now: datetime, id: str | None = None) -> Mapping[str, object]:
    """Return a CloudEvent of this type; without an id it gets a new one."""
    head = {"specversion": "1.0", "type": kind, "source": "notifier-cli", "id": id or token_hex(8)}
    return {**head, "time": now.isoformat(), "data": data}


def where(data: Path | None, url: str | None, key: str | None) -> tuple[str, str]:
    """The service and its key. Another one may share the folder's secret, whether or not anything runs there."""
    from notifier.api.auth.service_keys import keys_of

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


# Patience of long verbs: a part that is away for a while ends nothing.

GIVES_UP_AFTER = 600.0
"""Seconds of one outage."""
WAITS = 1.0


@dataclass(frozen=True, slots=True)
class RequestTimeout:
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
