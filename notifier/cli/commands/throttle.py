"""`notifier throttle`: slow a tier or stop it for a while, with a reason; nothing is lost by it."""

import os
import pwd
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import click

from notifier.cli.group import Family, example
from notifier.cli.options import DurationParam, Rate, data_option, json_option, settings_for
from notifier.cli.output import SHOWN_OF_ID, print_facts, print_json, print_sentence, print_table, stamp
from notifier.domain.audience.tiers import TIERS, Tier
from notifier.domain.delivery.throttle import RAMP, Throttle, checked
from notifier.domain.errors import NotFound

SHORTEST = 6
"""Characters of an id: nobody lifts another's throttle by a slip of the finger."""


def me() -> str:
    """The name of this process's user, or the number where nobody gave it a name; a container sets no USER."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


who_option = click.option(
    "--who", envvar=["USER", "LOGNAME"], default=me, help="Who does it.  [default: the user's name]"
)


@click.group(cls=Family, epilog=example("notifier throttle list"))
def throttle() -> None:
    """Slow a tier down, or stop it, for a while; nothing is lost by it.

    What is held back is parked: it is delivered when the throttle ends, and people's tabs show it meanwhile.
    """


@throttle.command(
    "set",
    epilog=example(
        'notifier throttle set --tier p2 --rate 20k --for 20m --reason "the store is busy"',
        'notifier throttle set --tier p2 --pause --for 2h --reason "maintenance"',
    ),
)
@click.option("--tier", type=click.Choice([str(tier) for tier in TIERS]), required=True, help="Which.")
@click.option("--rate", type=Rate(), default=None, help="Deliveries a second, like 500, 20k or 1.5M.")
@click.option("--pause", is_flag=True, help="Stop the tier altogether.")
@click.option(
    "--for", "lasting", type=DurationParam(), required=True, help="How long, like 30s, 20m or 2h; at most 7d."
)
@click.option("--reason", required=True, help="For whoever sees it next.")
@who_option
@data_option
@json_option
def set_throttle(
    *,
    tier: str,
    rate: float | None,
    pause: bool,
    lasting: timedelta,
    reason: str,
    who: str,
    data: Path | None,
    as_json: bool,
) -> None:
    """Set a throttle; it ends by itself, and the tier comes back over half a minute."""
    from notifier.cli.context import opened

    if pause == (rate is not None):
        raise click.UsageError("Give a --rate, or --pause to stop the tier.")
    with opened(settings_for(data)) as folder:
        ports = folder.ports
        now = ports.clock.now()
        new = checked(
            Throttle(
                id=ports.nonces.new(),
                tier=Tier(tier),
                rate=rate,
                reason=reason,
                who=who,
                starts_at=now,
                ends_at=now + lasting,
            )
        )
        ports.throttles.put(new)
    _print(new, now, as_json=as_json)


@throttle.command("list", epilog=example("notifier throttle list"))
@data_option
@json_option
def list_throttles(data: Path | None, as_json: bool) -> None:
    """List the throttles that are in force, and those that end in a ramp right now."""
    from notifier.cli.context import opened

    with opened(settings_for(data)) as folder:
        now = folder.ports.clock.now()
        found = [t for t in folder.ports.throttles.since(now - RAMP) if t.active(now) or t.ramping(now)]
    if as_json:
        print_json([facts(each, now) for each in found])
    else:
        _print_all(found, now)


@throttle.command(epilog=example("notifier throttle lift 2789d953", "notifier throttle lift p2"))
@click.argument("id")
@who_option
@data_option
@json_option
def lift(id: str, who: str, data: Path | None, as_json: bool) -> None:
    """End a throttle now; the tier comes back over half a minute.

    ID is as `notifier throttle list` shows it, or its first six characters if they are clear; or it is a tier: then
    every throttle of it ends.
    """
    from notifier.cli.context import opened

    with opened(settings_for(data)) as folder:
        now = folder.ports.clock.now()
        wanted = meant(id, folder.ports.throttles.since(now), now)
        ended = [folder.ports.throttles.lift(each, who, now) for each in wanted]
    lifted = [each for each in ended if each]
    if not lifted:
        raise NotFound(f"No throttle {id} is in force.")
    if as_json and id in TIERS:
        print_json([facts(each, now) for each in lifted])
        return
    for each in lifted:
        _print(each, now, as_json=as_json)


def meant(id: str, known: Sequence[Throttle], now: datetime) -> Sequence[str]:
    """The ids of those that are in force and meant. Raises UsageError for a beginning that isn't clear."""
    active = [each for each in known if each.active(now)]
    if id in TIERS:
        return [each.id for each in active if each.tier == id]
    if any(each.id == id for each in active):
        return [id]
    if len(id) < SHORTEST:
        raise click.UsageError(f"{id!r} is too little of an id: give its first {SHORTEST} characters, or a tier.")
    found = [each.id for each in active if each.id.startswith(id)]
    if len(found) > 1:
        raise click.UsageError(f"The ids of {len(found)} throttles begin with {id}; give more of the one you mean.")
    return found


def facts(each: Throttle, now: datetime) -> dict[str, object]:
    return {
        "id": each.id,
        "tier": str(each.tier),
        "rate": each.rate,
        "state": "active" if each.active(now) else "ramping",
        "reason": each.reason,
        "who": each.who,
        "starts_at": stamp(each.starts_at),
        "ends_at": stamp(each.ends_at),
    }


def _print(each: Throttle, now: datetime, *, as_json: bool) -> None:
    if as_json:
        print_json(facts(each, now))
    else:
        print_facts(facts(each, now) | {"id": each.id[:SHOWN_OF_ID], "rate": _rate(each)})


def _print_all(found: Sequence[Throttle], now: datetime) -> None:
    if not found:
        print_sentence("No tier is throttled.")
        return
    rows = [
        (
            each.id[:SHOWN_OF_ID],
            each.tier,
            _rate(each),
            "active" if each.active(now) else "ramping",
            each.ends_at,
            each.who,
            each.reason,
        )
        for each in found
    ]
    print_table(("id", "tier", "rate", "state", "ends", "who", "reason"), rows)


def _rate(each: Throttle) -> str:
    return "pause" if each.rate is None else f"{each.rate:,.0f}/s"
