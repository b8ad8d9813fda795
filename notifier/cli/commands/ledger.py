"""Command `notifier ledger`: shows the delivery progress of a burst and checks its totals."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click

from notifier.cli.command_groups_and_errors import example
from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import SHOWN_ID_LENGTH, iso_time, print_fields, print_json, print_sentence, print_table
from notifier.domain.delivery.ledger import BurstProgress, State
from notifier.domain.delivery.recipient_totals_and_progress import RecipientTotals, recipient_totals
from notifier.domain.delivery.slice_and_pool import Slice
from notifier.domain.errors import NotFound
from notifier.domain.ids import BurstKey
from notifier.ports.all_ports import Ports


@click.command(epilog=example("notifier ledger mention:nova#12"))
@click.argument("burst")
@data_option
@json_option
def ledger(burst: str, data: Path | None, as_json: bool) -> None:
    """Show the totals of a burst, and its delivery slices by tier and state."""
    from notifier.cli.opened_stores import open_stores

    with open_stores(settings_for(data)) as stores:
        report = ledger_json(stores.ports, BurstKey.parse(burst))
    if as_json:
        print_json(report)
    else:
        _print_report(report)


def ledger_json(ports: Ports, key: BurstKey) -> dict[str, object]:
    from notifier.cli.opened_stores import active_throttle_ids

    progress = ports.ledger.read([key]).get(key)
    if progress is None:
        raise NotFound(f"Burst {key} has no plan.")
    now, throttle_ids = ports.clock.now(), active_throttle_ids(ports)
    counts = (snapshot.counts() for snapshot in ports.store_scan.audience_snapshots(key))
    totals = recipient_totals(progress, counts, throttle_ids=throttle_ids, now=now)
    states = {
        slice_: slice_state.state(now, throttle_ids=throttle_ids)
        for slice_, slice_state in progress.slice_states.items()
    }
    slice_counts = Counter((str(slice_.step), str(slice_.tier), str(state)) for slice_, state in states.items())
    run_times = _earliest_run_times(progress, states)
    return {
        "burst": str(key),
        "opened_at": iso_time(progress.plan.opened_at),
        "lane": str(progress.plan.lane),
        "followers": progress.plan.followers,
        "recipients": _totals(totals),
        "slices": [
            {"step": step, "tier": tier, "state": state, "slices": n, "until": run_times.get((step, tier, state))}
            for (step, tier, state), n in slice_counts.items()
        ],
        "parked_by": _parked_by(progress, states, throttle_ids),
    }


def _totals(totals: RecipientTotals) -> dict[str, object]:
    return {**asdict(totals), "balanced": None if totals.expired else totals.is_balanced}


def _earliest_run_times(progress: BurstProgress, states: Mapping[Slice, State]) -> Mapping[tuple[str, str, str], str]:
    """Return the earliest time at which a deferred slice can run, by step, tier and state."""
    earliest = dict[tuple[str, str, str], datetime]()
    for slice_, slice_state in progress.slice_states.items():
        if states[slice_] is State.DEFERRED and slice_state.deferred_until is not None:
            group = str(slice_.step), str(slice_.tier), str(State.DEFERRED)
            earliest[group] = min(earliest.get(group, slice_state.deferred_until), slice_state.deferred_until)
    return {group: iso_time(at) for group, at in earliest.items()}


def _parked_by(progress: BurstProgress, states: Mapping[Slice, State], throttle_ids: frozenset[str]) -> list[str]:
    parked = [progress.slice_states[slice_] for slice_ in progress.slice_states if states[slice_] is State.PARKED]
    return sorted({id for slice_state in parked for id in slice_state.parked_by & throttle_ids})


def _print_report(report: Mapping[str, object]) -> None:
    slices, totals, parked_by = report["slices"], report["recipients"], report["parked_by"]
    assert isinstance(slices, list)
    assert isinstance(totals, dict)
    assert isinstance(parked_by, list)
    print_fields(
        {name: report[name] for name in ("burst", "opened_at", "lane")} | {"followers": f"{report['followers']:,}"}
    )
    click.echo()
    if totals["expired"]:
        print_sentence("The audience snapshots have expired; the totals can't be checked.")
    else:
        print_table(("users", ""), [(name, n) for name, n in totals.items() if name not in ("balanced", "expired")])
        click.echo("The totals balance." if totals["balanced"] else "The totals do not balance.")
    click.echo()
    print_table(("step", "tier", "state", "slices", "until"), [tuple(line.values()) for line in slices])
    if parked_by:
        print_sentence(
            f"Parked by {', '.join(id[:SHOWN_ID_LENGTH] for id in parked_by)}; see `notifier throttle list`."
        )
