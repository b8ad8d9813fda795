"""The preview equals the burst that follows it, and writes nothing."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from notifier.config.push import PushSettings
from notifier.domain.audience.bitmap import count
from notifier.domain.audience.snapshot import AudienceSnapshot
from notifier.domain.audience.tiers_and_member_sets import TIERS, Tier
from notifier.domain.bursts.events_and_mentions import Event, EventId
from notifier.domain.bursts.moderation import MentionRefusal, Verdict
from notifier.domain.delivery import delivery_cost_forecast
from notifier.domain.delivery.slice_and_pool import Step
from notifier.domain.ids import BurstKey, UserId
from notifier.domain.upstream.validation import EDITED_TYPE, PROTECTED_TYPE
from notifier.flow.operations.preview import AccountPreview
from notifier.wiring.operations import build_preview
from tests.flow.retraction_steps import delete
from tests.support.in_memory_system import LYRA, NOVA, Stage
from tests.support.simulator.script import Changed


def preview(
    stage: Stage, *mentioned: str, author: str = "ada", protected: bool = False, of: str = "t1"
) -> list[AccountPreview]:
    now = stage.state.clock.now()
    event = Event(
        id=EventId("tweets", "dry"),
        tweet=of,
        author=UserId(author),
        mentioned=tuple(map(UserId, mentioned)),
        text="",
        protected=protected,
        happened_at=now,
        accepted_at=now,
    )
    return list(build_preview(stage.system()).estimate(event))


def snapshots(stage: Stage, key: BurstKey) -> list[AudienceSnapshot]:
    return list(stage.state.store_scan.audience_snapshots(key))


def alerted(stage: Stage, key: BurstKey, tier: Tier) -> int:
    return sum(count(snapshot.members_to_alert(tier)) for snapshot in snapshots(stage, key))


def forecast_tiers(previewed: AccountPreview) -> Mapping[Tier, tuple[int, int, int]]:
    assert previewed.tiers is not None
    return {
        tier: (forecast_.people, forecast_.alert_count, forecast_.row_count)
        for tier, forecast_ in previewed.tiers.items()
    }


def actual(stage: Stage, key: BurstKey) -> Mapping[Tier, tuple[int, int, int]]:
    """Return the numbers by the snapshots and by the ledger."""
    statuses = stage.state.ledger.read([key])[key].slice_states.values()
    entries = [status.final_entry for status in statuses if status.final_entry and status.slice.step is Step.ROWS]
    alerts = {tier: alerted(stage, key, tier) for tier in TIERS}
    return {
        tier: (
            sum(entry.people for entry in entries if entry.slice.tier is tier),
            alerts[tier],
            sum(entry.row_count for entry in entries if entry.slice.tier is tier),
        )
        for tier in TIERS
    }


@pytest.mark.parametrize(
    ("account", "author", "protected"), [("nova", "ada", False), ("lyra", "ada", False), ("nova", "eve", True)]
)
def test_preview_equals_the_actual_burst(account: str, author: str, protected: bool) -> None:
    stage = Stage()
    [previewed] = preview(stage, account, author=author, protected=protected)
    assert stage.bursts() == stage.bursts(LYRA) == []
    stage.mention(account, author=author, protected=protected)
    stage.deliver()
    [key] = stage.bursts(NOVA if account == "nova" else LYRA)
    assert previewed.burst is not None
    assert (previewed.burst.key, previewed.joins) == (key, False)
    assert forecast_tiers(previewed) == actual(stage, key)
    assert previewed.dormant == sum(snapshot.dormant_count for snapshot in snapshots(stage, key))
    assert sum((previewed.suppressed or {}).values()) == sum(
        sum(snapshot.suppressed_counts.values()) for snapshot in snapshots(stage, key)
    )


@pytest.mark.parametrize(("tiers", "alerts"), [("p0,p1", [2, 1, 1, 1]), ("p2", [0, 0, 2, 1]), ("", [0, 0, 1, 1])])
def test_preview_counts_devices_of_configured_tiers_and_of_opt_ins(tiers: str, alerts: list[int]) -> None:
    stage = Stage(settings={"push": PushSettings(tiers=tiers)})
    for name in ("max", "pat", "quinn"):  # pat has not asked for alerts
        stage.population.change(Changed(person=name, what="push"))
    [previewed] = preview(stage, "nova")
    stage.mention("nova")
    stage.deliver()
    [key] = stage.bursts(NOVA)
    assert [alerted(stage, key, tier) for tier in Tier] == alerts
    assert forecast_tiers(previewed) == actual(stage, key)
    assert previewed.dormant_alerted == alerts[-1]


def test_preview_suppresses_volume_first_from_the_second_burst_on() -> None:
    stage = Stage()
    [first] = preview(stage, "nova")
    stage.mention("nova")
    stage.deliver()
    stage.pass_time(minutes=5)
    [second] = preview(stage, "nova")
    assert first.burst is not None
    assert second.burst is not None
    assert (first.burst.first_of_day, second.burst.first_of_day) == (True, False)
    assert ("first" in (first.suppressed or {}), (second.suppressed or {}).get("first")) == (False, 1)


def test_preview_joins_an_open_burst() -> None:
    stage = Stage()
    stage.mention("nova")
    [previewed] = preview(stage, "nova", author="bob")
    assert previewed.burst is not None
    assert (previewed.joins, previewed.burst.count, previewed.tiers) == (True, 2, None)


def test_preview_of_protected_mention_beyond_the_budget_is_pull_only() -> None:
    stage = Stage()
    for _ in range(6):
        stage.mention("nova", author="eve", protected=True)
    [previewed] = preview(stage, "nova", author="eve", protected=True)
    assert previewed.burst is not None
    assert (previewed.burst.pull_only, previewed.tiers) == (True, None)


def test_preview_shows_refusals_and_verdicts_without_alerts() -> None:
    stage = Stage()
    stage.reach("bob", Verdict.DENY)
    assert [previewed.refusal for previewed in preview(stage, "nova", "nobody", author="bob")] == [
        MentionRefusal.DENIED,
        MentionRefusal.UNKNOWN_ACCOUNT,
    ]
    stage.reach("bob", Verdict.ROW)
    [quiet] = preview(stage, "nova", author="bob")
    assert quiet.tiers is not None
    assert not any(tier.alert_count for tier in quiet.tiers.values())


def test_preview_duration_follows_last_burst_throttle_and_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delivery_cost_forecast, "MIN_REFERENCE_RECIPIENTS", 1)
    stage = Stage()
    [before] = preview(stage, "nova")
    assert before.tiers is not None
    assert [tier.seconds for tier in before.tiers.values() if tier.people] == [None] * 3
    stage.mention("nova")
    stage.deliver()
    stage.pass_time(minutes=5)
    stage.throttle(Tier.P2, rate=0.5, seconds=600)
    [after] = preview(stage, "nova")
    assert after.tiers is not None
    p2 = after.tiers[Tier.P2]
    assert (p2.held_by, p2.seconds) == ("t1", p2.people / 0.5)
    assert after.tiers[Tier.P1].seconds is not None
    stage.pass_time(seconds=timedelta(hours=2).total_seconds())
    stage.throttle(Tier.P1, seconds=600)
    [paused] = preview(stage, "nova")
    assert paused.tiers is not None
    assert (paused.tiers[Tier.P1].seconds, paused.tiers[Tier.P1].held_by) == (None, "t1")


def test_preview_of_retracted_tweet_shows_the_refusal() -> None:
    stage = Stage()
    delete(stage, "t1")
    stage.send_event(EDITED_TYPE, tweet="t2", author="ada", mentions=["lyra"], text="edited", sequence=1)
    [deleted], [nova, lyra] = preview(stage, "nova"), preview(stage, "nova", "lyra", of="t2")
    assert [previewed.refusal for previewed in (deleted, nova, lyra)] == [
        MentionRefusal.RETRACTED,
        MentionRefusal.RETRACTED,
        None,
    ]
    assert (deleted.burst, deleted.tiers, deleted.suppressed) == (None, None, None)
    stage.mention("nova", of="t1")
    stage.mention("nova", "lyra", of="t2")
    assert (stage.bursts(), len(stage.bursts(LYRA))) == ([], 1)


def test_preview_of_protected_author_is_restricted_to_followers() -> None:
    stage = Stage()
    stage.send_event(PROTECTED_TYPE, user="eve")
    [previewed] = preview(stage, "nova", author="eve")
    assert previewed.burst is not None
    assert previewed.burst.restricted_to == "eve"
    stage.mention("nova", author="eve")
    stage.deliver()
    [key] = stage.bursts()
    assert forecast_tiers(previewed) == actual(stage, key)


def test_preview_of_a_held_event_is_held() -> None:
    stage = Stage()
    stage.reach("bob", Verdict.HOLD)
    stage.tweet("nova", author="bob", id="dry")
    stage.sequence()
    stage.reach("bob", Verdict.ALL)
    [previewed] = preview(stage, "nova", author="bob")
    assert previewed.refusal is MentionRefusal.HELD
