"""Command `notifier dump`: prints contents of the store as JSON lines with stable keys."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import click

from notifier.cli.command_groups_and_errors import example
from notifier.cli.options import data_option, settings_for
from notifier.cli.output import iso_time, iso_time_or_none, print_lines
from notifier.domain.audience.inbox_rows import RANGE_BYTES, RANGE_MEMBERS
from notifier.domain.audience.snapshot import AudienceSnapshot
from notifier.domain.audience.tiers_and_member_sets import TIERS
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import BurstProgress, SliceState
from notifier.domain.ids import BurstKey
from notifier.ports.all_ports import Ports
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.ledger_claims_deferred_bursts_scan import StoredRow

Line = Mapping[str, object]


@click.command(
    epilog=example(
        "notifier dump inbox --ndjson | head",
        "notifier dump snapshots --ndjson --members --burst mention:nova#1",
    )
)
@click.argument("contents", type=click.Choice(["inbox", "ledger", "bursts", "snapshots"]))
@click.option(
    "--ndjson",
    is_flag=True,
    help="Print one JSON object per line. This is also the format without the option.",
)
@click.option("--members", is_flag=True, help="With snapshots: also print the bitmaps, in hexadecimal.")
@click.option("--burst", default=None, metavar="BURST", help="Print only this burst, like mention:nova#12.")
@data_option
def dump(contents: str, ndjson: bool, members: bool, burst: str | None, data: Path | None) -> None:
    """Print inbox rows, ledger entries, bursts or audience snapshots as JSON lines.

    Memory use is constant. A bitmap has one bit per member; the lowest bit of the first byte is the lowest member.
    """
    from notifier.cli.opened_stores import open_stores

    key = BurstKey.parse(burst) if burst else None
    sources: Mapping[str, Callable[[Ports], Iterator[Line]]] = {
        "inbox": lambda ports: inbox_lines(ports, key),
        "ledger": lambda ports: ledger_lines(ports, key),
        "bursts": lambda ports: (burst_line(listed) for listed in _read_bursts(ports, key)),
        "snapshots": lambda ports: snapshot_lines(ports, key, members=members),
    }
    with open_stores(settings_for(data)) as stores:
        print_lines(sources[contents](stores.ports))


def inbox_lines(ports: Ports, key: BurstKey | None) -> Iterator[Line]:
    return (row_line(stored) for stored in ports.store_scan.rows(key))


def row_line(stored: StoredRow) -> Line:
    row, first = stored.row, stored.member_range * RANGE_MEMBERS
    line = {"burst": str(row.burst), "opened_at": iso_time(row.opened_at), "tier": str(row.tier), "first": first}
    if len(row.members) == RANGE_BYTES:
        return {**line, "bitmap": row.members.hex()}
    return {**line, "members": (first + row.offsets()).tolist()}


def ledger_lines(ports: Ports, key: BurstKey | None) -> Iterator[Line]:
    from notifier.cli.opened_stores import active_throttle_ids

    throttle_ids = active_throttle_ids(ports)
    progress_rows = ports.store_scan.burst_progress() if key is None else iter(ports.ledger.read([key]).values())
    return (line for progress in progress_rows for line in progress_lines(progress, ports.clock, throttle_ids))


def progress_lines(progress: BurstProgress, clock: Clock, throttle_ids: frozenset[str]) -> Iterator[Line]:
    for state in progress.slice_states.values():
        yield slice_line(state, clock, throttle_ids)


def slice_line(state: SliceState, clock: Clock, throttle_ids: frozenset[str]) -> Line:
    slice_, final, claim, now = state.slice, state.final_entry, state.claim, clock.now()
    return {
        "burst": str(slice_.burst),
        "step": str(slice_.step),
        "tier": str(slice_.tier),
        "first": slice_.first,
        "last": slice_.last,
        "state": str(state.state(now, throttle_ids=throttle_ids)),
        "until": iso_time_or_none(state.deferred_until) if state.is_deferred(now) else None,
        "dispatched": state.times_dispatched,
        "dispatched_at": iso_time_or_none(state.dispatched_at),
        "attempts": state.failure_count,
        "parked_by": sorted(state.parked_by),
        "claimed_by": claim.owner if claim else None,
        "ended_at": iso_time_or_none(final.at) if final else None,
        "people": final.people if final else 0,
        "rows": final.row_count if final else 0,
        "note": final.note if final else "",
    }


def burst_line(burst: Burst) -> Line:
    return {
        "burst": str(burst.key),
        "subject": str(burst.key.subject),
        "seq": burst.key.seq,
        "opened_at": iso_time(burst.opened_at),
        "accepted_at": iso_time(burst.accepted_at),
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


def snapshot_lines(ports: Ports, key: BurstKey | None, *, members: bool) -> Iterator[Line]:
    for burst in _read_bursts(ports, key):
        for snapshot in ports.store_scan.audience_snapshots(burst.key):
            yield snapshot_line(burst.key, snapshot, members=members)


def snapshot_line(burst: BurstKey, snapshot: AudienceSnapshot, *, members: bool) -> Line:
    from notifier.domain.audience.bitmap import count

    line: dict[str, object] = {"burst": str(burst), "shard": snapshot.shard}
    line |= {str(tier): snapshot.reached_count(tier) for tier in TIERS}
    line |= {
        "push": count(snapshot.to_alert),
        "dormant": snapshot.dormant_count,
        "suppressed": dict(snapshot.suppressed_counts),
    }
    if members:
        bitmaps = {str(tier): snapshot.tiers[tier].tobytes().hex() for tier in TIERS}
        line["members"] = bitmaps | {"push": snapshot.to_alert.tobytes().hex()}
    return line


def _read_bursts(ports: Ports, key: BurstKey | None) -> Iterator[Burst]:
    return ports.store_scan.bursts() if key is None else iter(ports.bursts.read([key]).values())
