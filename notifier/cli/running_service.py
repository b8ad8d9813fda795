"""HTTP client of the commands: finds the running service and sends it requests."""

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
from notifier.cli.output import print_fields, print_json
from notifier.domain.errors import OUTAGES, FileUnwritable, NoAnswer, NotRunning, Refused, Unavailable
from notifier.domain.upstream.validation import HIGHEST_SEQUENCE

# Ready file.


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Content of the ready file, which `up` writes once the service is up."""

    url: str
    service_key: str
    pids: Mapping[str, int]
    """Process id by process name. `up` itself is included."""
    data: str
    version: str
    since: str = ""
    """Time at which `up` started."""
    insecure_dev: bool = False
    """Whether the service accepts requests from this machine without a key."""


def ready_path(data: Path) -> Path:
    """Return the path of the ready file that `up` writes even without `--ready-file`."""
    return data / "run" / "ready.json"


def write_ready(path: Path, ready: Ready) -> None:
    replace_file(path, json.dumps(asdict(ready), indent=2) + "\n")


def replace_file(path: Path, text: str) -> None:
    """Replace a file atomically: readers see the old or the new content. Raises FileUnwritable.

    Only this user may read it, because it may contain a key.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.touch(mode=0o600)
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise FileUnwritable(f"{path}: {error.strerror}.") from error


def read_ready(data: Path) -> Ready:
    """Return the content of the ready file. Raises NotRunning if there is none, or a killed `up` has left it behind."""
    try:
        ready = Ready(**json.loads(ready_path(data).read_text(encoding="utf-8")))
        is_running = is_alive(ready.pids["up"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise NotRunning(f"The folder is {data}.") from error
    if not is_running:
        raise NotRunning(f"The folder is {data}.")
    return ready


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # the process of another user
        return True
    return True


REQUEST_TIMEOUT_SECONDS = 10.0
"""Time limit in seconds to connect, and for each wait for data."""


def request_json(
    url: str, key: str, body: bytes | None = None, content_type: str = "application/json"
) -> dict[str, object]:
    """Send a GET request, or a POST if there is a body, and return the JSON response.

    Raises Refused, Unavailable or NoAnswer.
    """
    headers = {"Authorization": f"Bearer {key}", "Content-Type": content_type}
    try:
        with urlopen(Request(url, data=body, headers=headers), timeout=REQUEST_TIMEOUT_SECONDS) as response:
            answer = json.load(response)
    except HTTPError as error:
        with error:
            message = _error_text(error)
        raise (Refused(message) if error.code < 500 else Unavailable(message)) from error
    except (OSError, HTTPException) as error:
        raise NoAnswer(f"The address is {url}.") from error
    except ValueError as error:
        raise Refused(f"{url}: {error}.") from error
    if not isinstance(answer, dict):
        raise Refused(f"{url}: the response is not a JSON object.")
    return answer


def _error_text(error: HTTPError) -> str:
    try:
        problem = json.load(error)
        return f"{error.code}: {problem.get('detail') or problem.get('title')}"
    except (ValueError, AttributeError):
        return f"{error.code}: {error.reason}."


# Sending events to a running service.

url_option = click.option("--url", default=None, help="URL of the service.  [default: the service of the data folder]")
key_option = click.option("--key", default=None, help="Service key.  [default: the key of the data folder]")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSender:
    """Sends events to the service that --url, --key and --data select."""

    url: str | None
    key: str | None
    data: Path | None
    as_json: bool

    def send(self, event: Mapping[str, object]) -> None:
        receipt = send_event(*service_url_and_key(self.data, self.url, self.key), event)
        if self.as_json:
            print_json(receipt)
        else:
            print_fields(receipt)

    def send_all(self, events: Sequence[Mapping[str, object]]) -> Sequence[Mapping[str, object]]:
        """Send events as one batch, and return their receipts. Raises Refused as `send_events` does."""
        return send_events(*service_url_and_key(self.data, self.url, self.key), events)


def sends_events(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options --url, --key, --data and --json to a command, which gets an EventSender as `sender`."""

    @wraps(command)
    def run(*, url: str | None, key: str | None, data: Path | None, as_json: bool, **options: object) -> None:
        command(sender=EventSender(url=url, key=key, data=data, as_json=as_json), **options)

    return url_option(key_option(data_option(json_option(run))))


sequence_option = click.option(
    "--sequence",
    type=click.IntRange(1, HIGHEST_SEQUENCE),
    default=None,
    help="Sequence number; the change with the highest number wins.  [default: microseconds since 1970]",
)


def sequence_at(now: datetime) -> int:
    return int(now.timestamp() * 1_000_000)


def cloud_event(
    event_type: str, data: Mapping[str, object], now: datetime, id: str | None = None
) -> Mapping[str, object]:
    """Return a CloudEvent, with a random id if `id` is None."""
    attributes = {"specversion": "1.0", "type": event_type, "source": "notifier-cli", "id": id or token_hex(8)}
    return {**attributes, "time": now.isoformat(), "data": data}


def service_url_and_key(data: Path | None, url: str | None, key: str | None) -> tuple[str, str]:
    """Return the URL and the key of the service to call.

    With `url` alone, the key is the main key of the data folder, even if no service runs there.
    """
    from notifier.api.auth.service_and_installation_keys import installation_keys

    if url and key:
        return url, key
    settings = settings_for(data)
    if url:
        if not settings.data.is_dir():
            raise click.UsageError(
                f"--url needs --key: the data folder {settings.data} doesn't exist, so it has no key."
            )
        return url, installation_keys(settings).service_key
    ready = read_ready(settings.data)
    return ready.url, key or ready.service_key


def send_event(url: str, key: str, event: Mapping[str, object]) -> Mapping[str, object]:
    return request_json(f"{url}/v1/events", key, json.dumps(event).encode(), "application/cloudevents+json")


def send_events(url: str, key: str, events: Sequence[Mapping[str, object]]) -> Sequence[Mapping[str, object]]:
    """Send events as one batch and return their receipts.

    Raises Refused with the first refusal of an event. The service has then accepted the valid events.
    """
    body = json.dumps(events).encode()
    results: list[dict[str, Any]] = request_json(f"{url}/v1/events", key, body, "application/cloudevents-batch+json")[
        "results"
    ]  # type: ignore[assignment] # as the service answers
    for refusal in (entry["problem"] for entry in results if "problem" in entry):
        raise Refused(f"{refusal.get('detail') or refusal.get('title')} The valid events of the batch were accepted.")
    return results


# Retries of long-running commands: a short outage doesn't end them.

MAX_RETRY_SECONDS = 600.0
"""Time limit of the retries in seconds, from the first attempt on. A longer outage makes the command fail."""
RETRY_PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class OutageRetry:
    """Retries a function during an outage, up to a time limit."""

    max_retry_seconds: float = MAX_RETRY_SECONDS

    def __call__(self, work: Callable[[], None]) -> None:
        started, reported = time.monotonic(), False
        while True:
            try:
                return work()
            except OUTAGES as outage:
                if time.monotonic() - started > self.max_retry_seconds:
                    raise
                if not reported:
                    click.echo(f"Waiting: {outage}", err=True)
                reported = True
                time.sleep(RETRY_PAUSE_SECONDS)
