"""Tier rule: loads and checks the platform's own rule, or uses the built-in one."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

from notifier.domain.audience.bitmap import Bits, no_members
from notifier.domain.audience.tiers import ShardSets, Tier, TierRule, by_activity
from notifier.domain.errors import BadSetting, RuleFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRule:
    """Custom rule. Every result is checked as at startup; there is no fallback to another rule."""

    place: str
    """Location of the rule (`module:function`), as in the settings."""
    rule: TierRule

    def __call__(self, live: ShardSets, /) -> Mapping[Tier, Bits]:
        """Return the members of each tier. Raises RuleFailed with the cause."""
        try:
            bitmaps = self.rule(live)
        except Exception as error:
            raise RuleFailed(f"{self.place}: {type(error).__name__}: {error}.") from error
        if not isinstance(bitmaps, Mapping) or not all(map(_tier, bitmaps.items())):
            raise RuleFailed(f"{self.place} must return a bitmap of the shard for each tier that it names.")
        return bitmaps


def tier_rule(place: str) -> TierRule:
    """Load the rule at `module:function`, or return `by_activity` for an empty setting.

    Raises BadSetting for an unusable rule. The rule is called once here, so that this shows before the first slice.
    """
    if not place:
        return by_activity
    module, _, name = place.partition(":")
    try:
        rule = NamedRule(place=place, rule=getattr(import_module(module), name))
        rule(ShardSets(sets={}))
    except RuleFailed as error:
        raise BadSetting(f"The tier rule can't be used: {error.detail}") from error
    except Exception as error:
        raise BadSetting(f"The tier rule {place} can't be used: {type(error).__name__}: {error}.") from error
    return rule


def _tier(named: tuple[object, object]) -> bool:
    tier, people = named
    shape, kind = getattr(people, "shape", None), getattr(people, "dtype", None)
    return tier in set(Tier) and (shape, kind) == (no_members().shape, no_members().dtype)
