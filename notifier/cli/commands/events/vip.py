"""`notifier vip`: who is flagged as a VIP; said through the running service, as the account service would."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import click

from notifier.cli.group import Family, example
from notifier.cli.http import EventSender, cloud_event, sends_events, sequence_at
from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import print_json, print_sentence
from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, members
from notifier.domain.audience.tiers import SetKind
from notifier.domain.ids import Member, UserId
from notifier.domain.upstream.validation import CHANGED_TYPE, fault
from notifier.ports.all_ports import Ports

AT_ONCE = 64
"""Shards whose bitmaps are read together: 1 MB at most."""
MOST = 1_000
"""Accounts that a batch of events may be of."""


@click.group(cls=Family, epilog=example("notifier vip add @ada @bob", "notifier vip list"))
def vip() -> None:
    """Say who is a VIP, and see who is: while active within 7 days, they come first."""


@vip.command(epilog=example("notifier vip add @ada @bob"))
@click.argument("accounts", nargs=-1, required=True)
@sends_events
def add(*, accounts: Sequence[str], sender: EventSender) -> None:
    """Flag accounts as VIPs, from a moment from now on."""
    _say(accounts, sender, on=True)


@vip.command(epilog=example("notifier vip remove @ada"))
@click.argument("accounts", nargs=-1, required=True)
@sends_events
def remove(*, accounts: Sequence[str], sender: EventSender) -> None:
    """Take the flag from accounts."""
    _say(accounts, sender, on=False)


@vip.command(name="list", epilog=example("notifier vip list", "notifier vip list --limit 10 --json"))
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="The most that are told.")
@data_option
@json_option
def list_vips(limit: int, data: Path | None, *, as_json: bool) -> None:
    """Tell who is flagged, by the bitmaps that fan-out goes by, and how many they are."""
    from notifier.cli.context import opened

    with opened(settings_for(data)) as folder:
        total, names = flagged(folder.ports, limit)
    if as_json:
        print_json({"vips": total, "accounts": names})
        return
    for name in names:
        print_sentence(f"@{name}")
    print_sentence(f"{total:,} accounts are flagged{'' if total == len(names) else f', of which these are {limit:,}'}.")


def flagged(ports: Ports, limit: int) -> tuple[int, Sequence[UserId]]:
    """How many there are, and the first of them by number."""
    total, first = 0, list[Member]()
    for shard, bits in _bitmaps(ports):
        found = members(bits, shard)
        total += len(found)
        first += islice(found, limit - len(first))
    names = ports.directory.users(first)
    return total, [names[member] for member in first if member in names]


def _bitmaps(ports: Ports) -> Iterator[tuple[int, Bits]]:
    shards = range(-(-ports.directory.end() // SHARD_MEMBERS))
    for begin in range(0, len(shards), AT_ONCE):
        yield from sorted(ports.sets.read(SetKind.VIP, None, shards[begin : begin + AT_ONCE]).items())


def _say(accounts: Sequence[str], sender: EventSender, *, on: bool) -> None:
    names = list(dict.fromkeys(account.removeprefix("@") for account in accounts))
    if len(names) > MOST:
        raise click.UsageError(f"{MOST:,} accounts at a time are the most, not {len(names):,}.")
    for why in filter(None, map(fault, names)):
        raise click.UsageError(f"An account's name {why}.")
    results = sender.send_all([event(name, on=on, now=datetime.now(UTC)) for name in names])
    if sender.as_json:
        print_json({"results": results})
    else:
        told = ", ".join(f"@{name}" for name in names)
        print_sentence(f"Said of {told}: {'a VIP' if on else 'no VIP'}. Bitmaps have it in a moment.")


def event(user: str, *, on: bool, now: datetime) -> Mapping[str, object]:
    """A CloudEvent as the account service writes it."""
    return cloud_event(CHANGED_TYPE, {"user": user, "vip": on, "sequence": sequence_at(now)}, now)
