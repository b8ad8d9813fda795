"""`notifier storm`: sends many mentions of one account to the running service, evenly over some seconds."""

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from secrets import token_hex

import click

from notifier.cli.group import example
from notifier.cli.http import ask
from notifier.cli.options import Span, data_option, json_option, settings_for
from notifier.cli.output import print_facts, print_json

LETTERS = 10
"""A second; each carries a tenth of the rate."""
BATCH = "application/cloudevents-batch+json"


@click.command(epilog=example("notifier storm --of nova --rate 100 --for 10s"))
@click.option("--of", "star", default="nova", show_default=True, help="Who is mentioned.")
@click.option("--rate", type=click.IntRange(10, 5000), default=100, show_default=True, help="Mentions a second.")
@click.option("--for", "lasting", type=Span(), default="10s", show_default=True, help="How long, like 10s or 1m.")
@data_option
@json_option
def storm(*, star: str, rate: int, lasting: timedelta, data: Path | None, as_json: bool) -> None:
    """Send a storm of mentions, as the tweet service would."""
    from notifier.api.demo.traffic import letter
    from notifier.cli.ready_file import read_ready

    ready = read_ready(settings_for(data).data)
    letters, size, accepted = max(1, round(lasting.total_seconds() * LETTERS)), rate // LETTERS, 0
    began = time.monotonic()
    for number in range(letters):
        time.sleep(max(0.0, began + number / LETTERS - time.monotonic()))
        body = letter([star] * size, now=datetime.now(UTC), fresh=lambda: token_hex(8))
        results = ask(f"{ready.url}/v1/events", ready.service_key, json.dumps(body).encode(), BATCH)["results"]
        assert isinstance(results, list)
        accepted += sum(result.get("status") == "accepted" for result in results)
    facts = {"sent": letters * size, "accepted": accepted, "seconds": round(time.monotonic() - began, 1)}
    if as_json:
        print_json(facts)
    else:
        print_facts(facts)
