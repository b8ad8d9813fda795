"""A custom tier rule applies everywhere, and an invalid one prevents the start."""

from collections.abc import Mapping
from typing import Any

import pytest

from notifier.config import Settings
from notifier.domain.audience.bitmap import Bits, no_members
from notifier.domain.audience.tiers_and_member_sets import TIERS, SetKind, ShardSets, Tier, by_activity
from notifier.domain.delivery.ledger import MAX_ATTEMPTS
from notifier.domain.errors import BadSetting, RuleFailed
from notifier.domain.ids import Lane
from notifier.flow.indexing.custom_tier_rule import load_tier_rule
from notifier.flow.operations.audience_count import AudienceCounter
from notifier.wiring.delivery import build_slice_worker
from tests.docs.document_pages import Page
from tests.flow.test_preview import actual, forecast_tiers, preview
from tests.repo.repository_files import ROOT
from tests.support.in_memory_system import NOVA, Stage

GENEROUS = "examples.tier_rule:generous"


def test_default_rule_is_by_activity() -> None:
    assert load_tier_rule(Settings().tier_rule) is by_activity


def test_documented_rule_equals_the_example_file() -> None:
    [example] = [content for language, content in Page("docs/audiences.md").blocks if language == "python"]
    assert example == (ROOT / "examples" / "tier_rule.py").read_text()
    assert GENEROUS in Page("docs/audiences.md").text


def test_audience_count_preview_and_snapshots_use_the_same_rule() -> None:
    stage, plain = Stage(settings={"tier_rule": GENEROUS}), Stage()
    counted = AudienceCounter(sets=stage.state.sets, rule=stage.system().tier_rule).count(NOVA, Lane.CELEBRITY)
    [previewed] = preview(stage, "nova")
    stage.mention("nova")
    stage.deliver()
    [key] = stage.bursts()
    people = {tier: people for tier, (people, *_) in actual(stage, key).items()}
    assert forecast_tiers(previewed) == actual(stage, key)
    assert {tier: counted.tiers[tier] for tier in TIERS} == people
    assert (counted.tiers[Tier.DORMANT], previewed.dormant) == (0, 0)
    by_default = AudienceCounter(sets=plain.state.sets, rule=plain.system().tier_rule).count(NOVA, Lane.CELEBRITY)
    assert by_default.tiers[Tier.DORMANT] > 0


def no_mapping(_: ShardSets) -> Bits:
    return no_members()


def no_bitmap(_: ShardSets) -> Mapping[Tier, list[int]]:
    return {Tier.P1: [7]}


def no_tier(live: ShardSets) -> Mapping[str, Bits]:
    return {"p9": live[SetKind.VIP]}


def too_short(live: ShardSets) -> Mapping[Tier, Bits]:
    return {Tier.P0: live[SetKind.VIP][:9]}


def no_argument() -> Mapping[Tier, Bits]:
    return {}


HERE = "tests.flow.test_custom_tier_rule"
INVALID = {
    "nowhere.at_all:rule": r"ModuleNotFoundError: No module named 'nowhere'",
    f"{HERE}:missing": "AttributeError",
    f"{HERE}:HERE": "TypeError: 'str' object is not callable",
    f"{HERE}:no_argument": "TypeError",
    f"{HERE}:no_mapping": "must return a bitmap of the shard for each tier that it names",
    f"{HERE}:no_bitmap": "must return a bitmap",
    f"{HERE}:no_tier": "must return a bitmap",
    f"{HERE}:too_short": "must return a bitmap",
}


@pytest.mark.parametrize("place", INVALID)
def test_invalid_rule_is_refused_at_start(place: str) -> None:
    with pytest.raises(BadSetting, match=INVALID[place]) as error:
        Stage(settings={"tier_rule": place}).system()
    assert place in str(error.value)


@pytest.mark.parametrize("place", ["rule", "a:b:c", "a b:c", ":c", "a:", "os:system('x')"])
def test_malformed_rule_name_is_refused_when_settings_are_read(place: str) -> None:
    with pytest.raises(BadSetting, match="NOTIFIER_TIER_RULE"):
        Settings.read({"NOTIFIER_TIER_RULE": place})


def fails_with_followers(live: ShardSets) -> Mapping[Tier, Bits]:
    """Fail for shards with followers."""
    if live[SetKind.FOLLOWERS].any():
        raise KeyError("of a follower")
    return {Tier.P1: live[SetKind.FOLLOWERS]}


def no_bitmap_with_followers(live: ShardSets) -> Mapping[Tier, Any]:
    return {Tier.P1: live[SetKind.FOLLOWERS].any() or no_members()}


@pytest.mark.parametrize(
    ("name", "cause"),
    [("fails_with_followers", "KeyError: 'of a follower'"), ("no_bitmap_with_followers", "must return")],
)
def test_rule_failing_at_runtime_causes_dead_letters_without_fallback(name: str, cause: str) -> None:
    stage = Stage(settings={"tier_rule": f"{HERE}:{name}"})
    system = stage.system()
    stage.mention("nova")
    for _ in range(12):
        stage.dispatch()
        stage.work(by=build_slice_worker(system))
        stage.pass_time(seconds=1)
    letters = stage.state.dead_letters.list(99)
    assert {letter.stage for letter in letters} == {"p0", "p1", "p2"}
    assert all(letter.cause.startswith("RuleFailed: ") and f"{HERE}:{name}" in letter.cause for letter in letters)
    assert all(cause in letter.cause for letter in letters)
    assert (stage.reached(), list(stage.state.store_scan.audience_snapshots(stage.bursts()[0]))) == (set(), [])
    assert system.metrics.tier_rule_failures._value.get() >= MAX_ATTEMPTS * len(letters)
    assert stage.sees("kim") == ["mention:nova#1"]


def test_audience_count_and_preview_report_a_failed_rule() -> None:
    stage = Stage(settings={"tier_rule": f"{HERE}:fails_with_followers"})
    with pytest.raises(RuleFailed, match="KeyError"):
        preview(stage, "nova")
    with pytest.raises(RuleFailed, match="KeyError"):
        AudienceCounter(sets=stage.state.sets, rule=stage.system().tier_rule).count(NOVA, Lane.CELEBRITY)


def test_rule_without_tiers_makes_all_followers_dormant() -> None:
    audience = AudienceCounter(sets=Stage().state.sets, rule=lambda _: {}).count(NOVA, Lane.CELEBRITY)
    assert {tier: n for tier, n in audience.tiers.items() if n} == {Tier.DORMANT: sum(audience.tiers.values())}
    assert audience.tiers[Tier.DORMANT] > 0
