"""The rule of tiers that the settings name: a function of the platform's own, or the one that is built in."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

from notifier.domain.audience.bitmap import Bits, nobody
from notifier.domain.audience.tiers import ShardSets, Tier, TierRule, by_activity
from notifier.domain.errors import BadSetting, RuleFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRule:
    """Asked for each shard, it is held to what it was asked for at the start; nobody falls back on another rule."""

    place: str
    """As the settings have it."""
    rule: TierRule

    def __call__(self, live: ShardSets, /) -> Mapping[Tier, Bits]:
        """Raises RuleFailed, with the cause."""
        try:
            found = self.rule(live)
        except Exception as error:
            raise RuleFailed(f"{self.place}: {type(error).__name__}: {error}.") from error
        if not isinstance(found, Mapping) or not all(map(_tier, found.items())):
            raise RuleFailed(f"{self.place} doesn't give a bitmap of the shard for each tier that it names.")
        return found


def tier_rule(place: str) -> TierRule:
    """Of `module:function`; by_activity of nothing. Raises BadSetting for what is no rule, which is asked once here, so
    that it isn't found out by the first slice."""
    if not place:
        return by_activity
    module, _, name = place.partition(":")
    try:
        rule = NamedRule(place=place, rule=getattr(import_module(module), name))
        rule(ShardSets(sets={}))
    except RuleFailed as error:
        raise BadSetting(f"The rule of tiers can't be used: {error.detail}") from error
    except Exception as error:
        raise BadSetting(f"The rule of tiers {place} can't be used: {type(error).__name__}: {error}.") from error
    return rule


def _tier(named: tuple[object, object]) -> bool:
    tier, people = named
    shape, kind = getattr(people, "shape", None), getattr(people, "dtype", None)
    return tier in set(Tier) and (shape, kind) == (nobody().shape, nobody().dtype)
