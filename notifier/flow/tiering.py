"""The rule of tiers that the settings name: a function of the platform's own, or the one that is built in."""

from collections.abc import Mapping
from importlib import import_module

from notifier.domain.audience import ShardSets, Tier, TierRule, by_activity
from notifier.domain.bits import nobody
from notifier.domain.errors import BadSetting


def tier_rule(place: str) -> TierRule:
    """Of `module:function`; by_activity of nothing. Raises BadSetting for what is no rule, which is asked once here, so
    that it isn't found out by the first slice."""
    if not place:
        return by_activity
    module, _, name = place.partition(":")
    try:
        rule: TierRule = getattr(import_module(module), name)
        found = rule(ShardSets(sets={}))
    except Exception as error:
        raise BadSetting(f"The rule of tiers {place} can't be used: {type(error).__name__}: {error}.") from error
    if not isinstance(found, Mapping) or not all(map(_tier, found.items())):
        raise BadSetting(f"The rule of tiers {place} doesn't give a bitmap of the shard for each tier that it names.")
    return rule


def _tier(named: tuple[object, object]) -> bool:
    tier, people = named
    shape, kind = getattr(people, "shape", None), getattr(people, "dtype", None)
    return tier in set(Tier) and (shape, kind) == (nobody().shape, nobody().dtype)
