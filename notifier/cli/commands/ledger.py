"""`notifier ledger`: how far a burst's delivery is, and whether its books balance."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click

from notifier.cli.group import example
from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import SHOWN_OF_ID, print_facts, print_json, print_sentence, print_table, stamp
from notifier.domain.delivery.accounting import Books, books
from notifier.domain.delivery.ledger import BurstProgress, State
from notifier.domain.delivery.slice import Slice
from notifier.domain.errors import NotFound
from notifier.domain.ids import BurstKey
from notifier.ports.all_ports import Ports


@click.command(epilog=example("notifier ledger mention:nova#12"))
@click.argument("burst")
@data_option
@json_option
def ledger(burst: str, data: Path | None, as_json: bool) -> None:
    """Show a burst's books, and the slices of its delivery by tier and state."""
    from notifier.cli.context import opened

    with opened(settings_for(data)) as folder:
        found = facts(folder.ports, BurstKey.parse(burst))
    if as_json:
        print_json(found)
    else:
        _print(found)


def facts(ports: Ports, key: BurstKey) -> dict[str, object]:
    """Raises NotFound."""
    from notifier.cli.context import holding

    account = ports.ledger.read([key]).get(key)
    if account is None:
        raise NotFound(f"The burst {key} has no plan.")
    now, held = ports.clock.now(), holding(ports)
    tallies = (seal.tally() for seal in ports.archive.seals(key))
    sums = books(account, tallies, throttles=held, now=now)
    states = {piece: standing.state(now, throttles=held) for piece, standing in account.standings.items()}
    counted = Counter((str(piece.step), str(piece.tier), str(state)) for piece, state in states.items())
    until = _waits_until(account, states)
    return {
        "burst": str(key),
        "opened_at": stamp(account.plan.opened_at),
        "lane": str(account.plan.lane),
        "followers": account.plan.followers,
        "books": _books(sums),
        "slices": [
            {"step": step, "tier": tier, "state": state, "slices": n, "until": until.get((step, tier, state))}
            for (step, tier, state), n in counted.items()
        ],
        "parked_by": _parked_by(account, states, held),
    }


def _books(sums: Books) -> dict[str, object]:
    return {**asdict(sums), "balanced": None if sums.expired else sums.balanced}


def _waits_until(account: BurstProgress, states: Mapping[Slice, State]) -> Mapping[tuple[str, str, str], str]:
    """When the first of those goes on that wait for a moment."""
    found = dict[tuple[str, str, str], datetime]()
    for piece, standing in account.standings.items():
        if states[piece] is State.WAITING and standing.waits_until is not None:
            of = str(piece.step), str(piece.tier), str(State.WAITING)
            found[of] = min(found.get(of, standing.waits_until), standing.waits_until)
    return {of: stamp(at) for of, at in found.items()}


def _parked_by(account: BurstProgress, states: Mapping[Slice, State], held: frozenset[str]) -> list[str]:
    parked = [account.standings[piece] for piece in account.standings if states[piece] is State.PARKED]
    return sorted({id for standing in parked for id in standing.parked_by & held})


def _print(found: Mapping[str, object]) -> None:
    slices, sums, parked_by = found["slices"], found["books"], found["parked_by"]
    assert isinstance(slices, list)
    assert isinstance(sums, dict)
    assert isinstance(parked_by, list)
    print_facts(
        {name: found[name] for name in ("burst", "opened_at", "lane")} | {"followers": f"{found['followers']:,}"}
    )
    click.echo()
    if sums["expired"]:
        print_sentence("The seals have expired; nothing to check against.")
    else:
        print_table(("people", ""), [(name, n) for name, n in sums.items() if name not in ("balanced", "expired")])
        click.echo("The books balance." if sums["balanced"] else "The books do not balance.")
    click.echo()
    print_table(("step", "tier", "state", "slices", "until"), [tuple(line.values()) for line in slices])
    if parked_by:
        print_sentence(f"Parked by {', '.join(id[:SHOWN_OF_ID] for id in parked_by)}; see `notifier throttle list`.")
