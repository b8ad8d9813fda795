"""Command `notifier dump`: prints the contents of the store as JSON lines with stable keys."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import click

from notifier.cli.group import example
from notifier.cli.options import data_option, settings_for
from notifier.cli.output import maybe_stamp, print_lines, stamp
from notifier.domain.audience.inbox_rows import RANGE_BYTES, RANGE_MEMBERS
from notifier.domain.audience.snapshot import Seal
from notifier.domain.audience.tiers import TIERS
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import BurstProgress, SliceState
from notifier.domain.ids import BurstKey
from notifier.ports.all_ports import Ports
from notifier.ports.coordination import Clock
from notifier.ports.ledger import StoredRow

Line = Mapping[str, object]


@click.command(
    epilog=example(
        "notifier dump inbox --ndjson | head",
        "notifier dump seals --ndjson --members --burst mention:nova#1",
    )
)
@click.argument("what", type=click.Choice(["inbox", "ledger", "bursts", "seals"]))
@click.option("--ndjson", is_flag=True, help="One JSON object a line; there is no other form.")
@click.option("--members", is_flag=True, help="Of seals: the bitmaps too, as hexadecimal.")
@click.option("--burst", default=None, metavar="BURST", help="Of one burst alone, like mention:nova#12.")
@data_option
def dump(what: str, ndjson: bool, members: bool, burst: str | None, data: Path | None) -> None:
    """Print inbox rows, ledger entries, bursts or audience snapshots as JSON lines.

    Streams in constant memory. A bitmap has one bit per member, the lowest member in the lowest bit of the first byte.
    """
    from notifier.cli.context import opened

    wanted = BurstKey.parse(burst) if burst else None
    sources: Mapping[str, Callable[[Ports], Iterator[Line]]] = {
        "inbox": lambda ports: inbox_lines(ports, wanted),
        "ledger": lambda ports: ledger_lines(ports, wanted),
        "bursts": lambda ports: (burst_line(item) for item in _bursts(ports, wanted)),
        "seals": lambda ports: seal_lines(ports, wanted, members=members),
    }
    with opened(settings_for(data)) as folder:
        print_lines(sources[what](folder.ports))


def inbox_lines(ports: Ports, wanted: BurstKey | None) -> Iterator[Line]:
    return (row_line(stored) for stored in ports.archive.rows(wanted))


def row_line(stored: StoredRow) -> Line:
    row, first = stored.row, stored.member_range * RANGE_MEMBERS
    place = {"burst": str(row.burst), "opened_at": stamp(row.opened_at), "tier": str(row.tier), "first": first}
    if len(row.members) == RANGE_BYTES:
        return {**place, "bitmap": row.members.hex()}
    return {**place, "members": (first + row.places()).tolist()}


def ledger_lines(ports: Ports, wanted: BurstKey | None) -> Iterator[Line]:
    from notifier.cli.context import holding

    held = holding(ports)
    accounts = ports.archive.accounts() if wanted is None else iter(ports.ledger.read([wanted]).values())
    return (line for progress in accounts for line in account_lines(progress, ports.clock, held))


def account_lines(account: BurstProgress, clock: Clock, held: frozenset[str]) -> Iterator[Line]:
    for state in account.standings.values():
        yield standing_line(state, clock, held)


def standing_line(standing: SliceState, clock: Clock, held: frozenset[str]) -> Line:
    slice_, ended, claim, now = standing.slice, standing.ended, standing.claim, clock.now()
    return {
        "burst": str(slice_.burst),
        "step": str(slice_.step),
        "tier": str(slice_.tier),
        "first": slice_.first,
        "last": slice_.last,
        "state": str(standing.state(now, throttles=held)),
        "until": maybe_stamp(standing.waits_until) if standing.waits(now) else None,
        "dispatched": standing.dispatched,
        "dispatched_at": maybe_stamp(standing.dispatched_at),
        "attempts": standing.attempts,
        "parked_by": sorted(standing.parked_by),
        "claimed_by": claim.owner if claim else None,
        "ended_at": maybe_stamp(ended.at) if ended else None,
        "people": ended.people if ended else 0,
        "rows": ended.rows if ended else 0,
        "note": ended.note if ended else "",
    }


def burst_line(burst: Burst) -> Line:
    return {
        "burst": str(burst.key),
        "subject": str(burst.key.subject),
        "seq": burst.key.seq,
        "opened_at": stamp(burst.opened_at),
        "accepted_at": stamp(burst.accepted_at),
        "lane": str(burst.lane),
        "verdict": str(burst.verdict),
        "count": burst.count,
        "mentioners": list(burst.mentioners),
        "more_mentioners": burst.more_mentioners,
        "first_of_day": burst.first_of_day,
        "restricted_to": burst.restricted_to,
        "pull_only": burst.pull_only,
        "tweet": burst.tweet,
        "text": burst.text,
        "version": burst.version,
    }


def seal_lines(ports: Ports, wanted: BurstKey | None, *, members: bool) -> Iterator[Line]:
    for burst in _bursts(ports, wanted):
        for seal in ports.archive.seals(burst.key):
            yield seal_line(burst.key, seal, members=members)


def seal_line(burst: BurstKey, seal: Seal, *, members: bool) -> Line:
    from notifier.domain.audience.bitmap import count

    line: dict[str, object] = {"burst": str(burst), "shard": seal.shard}
    line |= {str(tier): seal.reached(tier) for tier in TIERS}
    line |= {
        "push": count(seal.push),
        "dormant": seal.dormant,
        "suppressed": dict(seal.suppressed),
    }
    if members:
        bitmaps = {str(tier): seal.tiers[tier].tobytes().hex() for tier in TIERS}
        line["members"] = bitmaps | {"push": seal.push.tobytes().hex()}
    return line


def _bursts(ports: Ports, wanted: BurstKey | None) -> Iterator[Burst]:
    return ports.archive.bursts() if wanted is None else iter(ports.bursts.read([wanted]).values())
