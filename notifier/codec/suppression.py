"""Who is to be spared an alert, as a store found it: shard by shard, and who merely sleeps apart from the others."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from notifier.domain.audience.bitmap import SHARD_MEMBERS, from_offsets, nobody, shard_of
from notifier.domain.ids import Member
from notifier.domain.users.account_preferences import Asleep, Unwanted
from notifier.ports.push import Spare


def spares(
    shards: Collection[int], never: Iterable[Member], said: Iterable[tuple[Member, Unwanted | Asleep]]
) -> Mapping[int, Spare]:
    """Of each of the shards; `said` is what they say of everything. Whoever is in both is never alerted."""
    out: Mapping[int, set[int]] = {shard: set() for shard in shards}
    asleep: Mapping[int, dict[int, datetime]] = {shard: {} for shard in shards}
    for member in never:
        out[shard_of(member)].add(member % SHARD_MEMBERS)
    for member, why in said:
        match why:
            case Unwanted():
                out[shard_of(member)].add(member % SHARD_MEMBERS)
            case Asleep(until=until):
                asleep[shard_of(member)][member % SHARD_MEMBERS] = until
    return {shard: _spare(out[shard], asleep[shard]) for shard in shards}


def _spare(never: Collection[int], asleep: Mapping[int, datetime]) -> Spare:
    others = {place: until for place, until in asleep.items() if place not in never}
    return Spare(
        never=from_offsets(never) if never else nobody(),
        asleep=from_offsets(others) if others else nobody(),
        until=min(others.values(), default=None),
    )
