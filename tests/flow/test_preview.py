"""The preview agrees with the burst that comes right behind it, and leaves nothing."""

from collections.abc import Mapping
from datetime import timedelta

import pytest

from notifier.config.push import PushSettings
from notifier.domain.audience.bitmap import count
from notifier.domain.audience.snapshot import Seal
from notifier.domain.audience.tiers import TIERS, Tier
from notifier.domain.bursts.mention import Event, EventId
from notifier.domain.bursts.moderation import MentionRefusal, Verdict
from notifier.domain.delivery import forecast
from notifier.domain.delivery.slice import Step
from notifier.domain.ids import BurstKey, UserId
from notifier.domain.upstream.validation import EDITED_TYPE, PROTECTED_TYPE
from notifier.flow.operations.preview import Previewed
from notifier.wiring.operations import build_preview
from tests.flow.retractions import delete
from tests.support.in_memory_system import LYRA, NOVA, Stage
from tests.support.simulator.script import Changed


def preview(
    stage: Stage, *mentioned: str, author: str = "ada", protected: bool = False, of: str = "t1"
) -> list[Previewed]:
    now = stage.ground.clock.now()
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


def seals(stage: Stage, key: BurstKey) -> list[Seal]:
    return list(stage.ground.archive.seals(key))


def alerted(stage: Stage, key: BurstKey, tier: Tier) -> int:
    return sum(count(one.alerted(tier)) for one in seals(stage, key))


def told(found: Previewed) -> Mapping[Tier, tuple[int, int, int]]:
    assert found.tiers is not None
    return {tier: (one.people, one.phones, one.rows) for tier, one in found.tiers.items()}


def actual(stage: Stage, key: BurstKey) -> Mapping[Tier, tuple[int, int, int]]:
    """By the seals, and by what the ledger counted."""
    standings = stage.ground.ledger.read([key])[key].standings.values()
    entries = [s.ended for s in standings if s.ended and s.slice.step is Step.ROWS]
    phones = {tier: alerted(stage, key, tier) for tier in TIERS}
    return {
        tier: (
            sum(e.people for e in entries if e.slice.tier is tier),
            phones[tier],
            sum(e.rows for e in entries if e.slice.tier is tier),
        )
        for tier in TIERS
    }


@pytest.mark.parametrize(
    ("whom", "author", "protected"), [("nova", "ada", False), ("lyra", "ada", False), ("nova", "eve", True)]
)
def test_preview_equals_actual(whom: str, author: str, protected: bool) -> None:
    stage = Stage()
    [found] = preview(stage, whom, author=author, protected=protected)
    assert stage.bursts() == stage.bursts(LYRA) == []
    stage.mention(whom, author=author, protected=protected)
    stage.deliver()
    [key] = stage.bursts(NOVA if whom == "nova" else LYRA)
    assert found.burst is not None
    assert (found.burst.key, found.joins) == (key, False)
    assert told(found) == actual(stage, key)
    assert found.dormant == sum(one.dormant for one in seals(stage, key))
    assert sum((found.suppressed or {}).values()) == sum(sum(one.suppressed.values()) for one in seals(stage, key))


@pytest.mark.parametrize(("tiers", "phones"), [("p0,p1", [2, 1, 1, 1]), ("p2", [0, 0, 2, 1]), ("", [0, 0, 1, 1])])
def test_phones_ring_of_the_tiers_that_the_operator_names_and_of_whoever_asked(tiers: str, phones: list[int]) -> None:
    stage = Stage(settings={"push": PushSettings(tiers=tiers)})
    for name in ("max", "pat", "quinn"):  # of whom pat hasn't asked
        stage.scene.change(Changed(person=name, what="push"))
    [found] = preview(stage, "nova")
    stage.mention("nova")
    stage.deliver()
    [key] = stage.bursts(NOVA)
    assert [alerted(stage, key, tier) for tier in Tier] == phones
    assert told(found) == actual(stage, key)
    assert found.dormant_phones == phones[-1]


def test_the_day_s_first_leaves_out_nobody_who_wants_that_alone_and_the_second_does() -> None:
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


def test_while_a_burst_is_open_a_mention_joins_it() -> None:
    stage = Stage()
    stage.mention("nova")
    [found] = preview(stage, "nova", author="bob")
    assert found.burst is not None
    assert (found.joins, found.burst.count, found.tiers) == (True, 2, None)


def test_beyond_the_purse_a_protected_mention_is_pulled_alone() -> None:
    stage = Stage()
    for _ in range(6):
        stage.mention("nova", author="eve", protected=True)
    [found] = preview(stage, "nova", author="eve", protected=True)
    assert found.burst is not None
    assert (found.burst.pull_only, found.tiers) == (True, None)


def test_whose_mentions_reach_nobody_is_told_so_and_whose_ring_no_phone_too() -> None:
    stage = Stage()
    stage.reach("bob", Verdict.DENY)
    assert [found.refusal for found in preview(stage, "nova", "nobody", author="bob")] == [
        MentionRefusal.DENIED,
        MentionRefusal.UNKNOWN_ACCOUNT,
    ]
    stage.reach("bob", Verdict.ROW)
    [quiet] = preview(stage, "nova", author="bob")
    assert quiet.tiers is not None
    assert not any(one.phones for one in quiet.tiers.values())


def test_the_seconds_are_those_of_the_last_burst_or_of_a_throttle_and_none_of_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forecast, "MANY", 1)
    stage = Stage()
    [before] = preview(stage, "nova")
    assert before.tiers is not None
    assert [one.seconds for one in before.tiers.values() if one.people] == [None] * 3
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


def test_of_a_tweet_that_was_taken_back_it_says_so_and_the_real_one_right_behind_it_opens_nothing() -> None:
    stage = Stage()
    delete(stage, "t1")
    stage.say(EDITED_TYPE, tweet="t2", author="ada", mentions=["lyra"], text="edited", sequence=1)
    [gone], [nova, lyra] = preview(stage, "nova"), preview(stage, "nova", "lyra", of="t2")
    assert [found.refusal for found in (gone, nova, lyra)] == [MentionRefusal.RETRACTED, MentionRefusal.RETRACTED, None]
    assert (gone.burst, gone.tiers, gone.suppressed) == (None, None, None)
    stage.mention("nova", of="t1")
    stage.mention("nova", "lyra", of="t2")
    assert (stage.bursts(), len(stage.bursts(LYRA))) == ([], 1)


def test_of_what_an_author_wrote_before_being_protected_it_says_whose_followers_get_it() -> None:
    stage = Stage()
    stage.say(PROTECTED_TYPE, user="eve")
    [found] = preview(stage, "nova", author="eve")
    assert found.burst is not None
    assert found.burst.restricted_to == "eve"
    stage.mention("nova", author="eve")
    stage.deliver()
    [key] = stage.bursts()
    assert told(found) == actual(stage, key)


def test_what_is_held_is_held_when_it_comes_again() -> None:
    stage = Stage()
    stage.reach("bob", Verdict.HOLD)
    stage.tweet("nova", author="bob", id="dry")
    stage.sequence()
    stage.reach("bob", Verdict.ALL)
    [found] = preview(stage, "nova", author="bob")
    assert found.refusal is MentionRefusal.HELD
