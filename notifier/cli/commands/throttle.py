"""Command `notifier throttle`: slows or pauses a tier for a limited time, without loss."""

import os
import pwd
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import click

from notifier.cli.command_groups_and_errors import CommandGroup, example
from notifier.cli.options import DurationParam, RateParam, data_option, json_option, settings_for
from notifier.cli.output import SHOWN_ID_LENGTH, iso_time, print_fields, print_json, print_sentence, print_table
from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.delivery.throttle_and_backpressure import RAMP, Throttle, validated_throttle
from notifier.domain.errors import NotFound

MIN_PREFIX_LENGTH = 6
"""Minimum length of an id prefix in characters. With fewer, a typing error could select another item."""


def user_name() -> str:
    """Return the name of this process's user, or the uid if it has none."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


operator_option = click.option(
    "--operator",
    "operator",
    envvar=["USER", "LOGNAME"],
    default=user_name,
    help="Name of the operator.  [default: the current user]",
)


@click.group(cls=CommandGroup, epilog=example("notifier throttle list"))
def throttle() -> None:
    """Slow down or pause a delivery tier for a limited time. No delivery is lost.

    Work that is held back is parked, and resumes when the throttle ends. Inboxes show the bursts even while their rows
    are missing.
    """


@throttle.command(
    "set",
    epilog=example(
        'notifier throttle set --tier p2 --rate 20k --for 20m --reason "the store is busy"',
        'notifier throttle set --tier p2 --pause --for 2h --reason "maintenance"',
    ),
)
@click.option(
    "--tier", type=click.Choice([str(tier) for tier in TIERS]), required=True, help="Tier to slow down or pause."
)
@click.option("--rate", type=RateParam(), default=None, help="Deliveries per second, like 500, 20k or 1.5M.")
@click.option("--pause", is_flag=True, help="Stop the tier completely.")
@click.option(
    "--for", "duration", type=DurationParam(), required=True, help="Duration, like 30s, 20m or 2h; at most 7d."
)
@click.option("--reason", required=True, help="Reason, shown to other operators.")
@operator_option
@data_option
@json_option
def set_throttle(
    *,
    tier: str,
    rate: float | None,
    pause: bool,
    duration: timedelta,
    reason: str,
    operator: str,
    data: Path | None,
    as_json: bool,
) -> None:
    """Set a throttle. At its end, the tier ramps up over 30 seconds."""
    from notifier.cli.opened_stores import open_stores

    if pause == (rate is not None):
        raise click.UsageError("Give either --rate, or --pause to stop the tier.")
    with open_stores(settings_for(data)) as stores:
        ports = stores.ports
        now = ports.clock.now()
        new = validated_throttle(
            Throttle(
                id=ports.nonces.new(),
                tier=Tier(tier),
                rate=rate,
                reason=reason,
                operator=operator,
                starts_at=now,
                ends_at=now + duration,
            )
        )
        ports.throttles.put(new)
    _print_throttle(new, now, as_json=as_json)


@throttle.command("list", epilog=example("notifier throttle list"))
@data_option
@json_option
def list_throttles(data: Path | None, as_json: bool) -> None:
    """List the active throttles, and those that are ramping up."""
    from notifier.cli.opened_stores import open_stores

    with open_stores(settings_for(data)) as stores:
        now = stores.ports.clock.now()
        throttles = [
            throttle_
            for throttle_ in stores.ports.throttles.ending_after(now - RAMP)
            if throttle_.is_active(now) or throttle_.is_ramping(now)
        ]
    if as_json:
        print_json([throttle_json(throttle_, now) for throttle_ in throttles])
    else:
        _print_all(throttles, now)


@throttle.command(epilog=example("notifier throttle lift 2789d953", "notifier throttle lift p2"))
@click.argument("id")
@operator_option
@data_option
@json_option
def lift(id: str, operator: str, data: Path | None, as_json: bool) -> None:
    """End a throttle now. The tier ramps up over 30 seconds.

    ID is an id that `notifier throttle list` shows, or at least its first six characters if they are unambiguous. If ID
    is a tier, all of its throttles end.
    """
    from notifier.cli.opened_stores import open_stores

    with open_stores(settings_for(data)) as stores:
        now = stores.ports.clock.now()
        selected_ids = selected_throttle_ids(id, stores.ports.throttles.ending_after(now), now)
        results = [stores.ports.throttles.lift(id_, operator, now) for id_ in selected_ids]
    lifted = [throttle_ for throttle_ in results if throttle_]
    if not lifted:
        raise NotFound(f"No throttle {id} is active.")
    if as_json and id in TIERS:
        print_json([throttle_json(throttle_, now) for throttle_ in lifted])
        return
    for throttle_ in lifted:
        _print_throttle(throttle_, now, as_json=as_json)


def selected_throttle_ids(id: str, throttles: Sequence[Throttle], now: datetime) -> Sequence[str]:
    """Return the ids of the active throttles that `id` selects. Raises UsageError for an ambiguous or short prefix."""
    active = [throttle_ for throttle_ in throttles if throttle_.is_active(now)]
    if id in TIERS:
        return [throttle_.id for throttle_ in active if throttle_.tier == id]
    if any(throttle_.id == id for throttle_ in active):
        return [id]
    if len(id) < MIN_PREFIX_LENGTH:
        raise click.UsageError(
            f"{id!r} is too short: give at least the first {MIN_PREFIX_LENGTH} characters of the id, or a tier."
        )
    matches = [throttle_.id for throttle_ in active if throttle_.id.startswith(id)]
    if len(matches) > 1:
        raise click.UsageError(f"The ids of {len(matches)} throttles begin with {id}; give more characters.")
    return matches


def throttle_json(throttle_: Throttle, now: datetime) -> dict[str, object]:
    return {
        "id": throttle_.id,
        "tier": str(throttle_.tier),
        "rate": throttle_.rate,
        "state": "active" if throttle_.is_active(now) else "ramping",
        "reason": throttle_.reason,
        "operator": throttle_.operator,
        "starts_at": iso_time(throttle_.starts_at),
        "ends_at": iso_time(throttle_.ends_at),
    }


def _print_throttle(throttle_: Throttle, now: datetime, *, as_json: bool) -> None:
    if as_json:
        print_json(throttle_json(throttle_, now))
    else:
        print_fields(
            throttle_json(throttle_, now) | {"id": throttle_.id[:SHOWN_ID_LENGTH], "rate": _format_rate(throttle_)}
        )


def _print_all(throttles: Sequence[Throttle], now: datetime) -> None:
    if not throttles:
        print_sentence("No tier is throttled.")
        return
    rows = [
        (
            throttle_.id[:SHOWN_ID_LENGTH],
            throttle_.tier,
            _format_rate(throttle_),
            "active" if throttle_.is_active(now) else "ramping",
            throttle_.ends_at,
            throttle_.operator,
            throttle_.reason,
        )
        for throttle_ in throttles
    ]
    print_table(("id", "tier", "rate", "state", "ends", "operator", "reason"), rows)


def _format_rate(throttle_: Throttle) -> str:
    return "pause" if throttle_.rate is None else f"{throttle_.rate:,.0f}/s"
