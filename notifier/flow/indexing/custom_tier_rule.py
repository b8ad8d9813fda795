"""Loads the tier rule that the settings name, and checks its results."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

from notifier.domain.audience.bitmap import Bits, no_members
from notifier.domain.audience.tiers_and_member_sets import ShardSets, Tier, TierRule, by_activity
from notifier.domain.errors import BadSetting, RuleFailed


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomRule:
    """A tier rule from the settings. Every result is checked; there is no fallback to the built-in rule."""

    location: str
    """Location of the rule's function (`module:function`), as in the settings."""
    rule: TierRule

    def __call__(self, sets: ShardSets, /) -> Mapping[Tier, Bits]:
        """Return the members of each tier. Raises RuleFailed with the cause."""
        try:
            bitmaps = self.rule(sets)
        except Exception as error:
            raise RuleFailed(f"{self.location}: {type(error).__name__}: {error}.") from error
        if not isinstance(bitmaps, Mapping) or not all(map(_is_tier_bitmap, bitmaps.items())):
            raise RuleFailed(f"{self.location} must return a bitmap of the shard for each tier that it names.")
        return bitmaps


def load_tier_rule(location: str) -> TierRule:
    """Load the rule at `module:function`, or return `by_activity` for an empty setting.

    Raises BadSetting if the rule cannot be loaded, or fails for a shard with empty sets.
    """
    if not location:
        return by_activity
    module, _, name = location.partition(":")
    try:
        rule = CustomRule(location=location, rule=getattr(import_module(module), name))
        rule(ShardSets(sets={}))
    except RuleFailed as error:
        raise BadSetting(f"The tier rule can't be used: {error.detail}") from error
    except Exception as error:
        raise BadSetting(f"The tier rule {location} can't be used: {type(error).__name__}: {error}.") from error
    return rule


def _is_tier_bitmap(item: tuple[object, object]) -> bool:
    tier, bits = item
    shape, dtype = getattr(bits, "shape", None), getattr(bits, "dtype", None)
    return tier in set(Tier) and (shape, dtype) == (no_members().shape, no_members().dtype)
