"""What became of an event, as its sender is told."""

from datetime import timedelta

import pytest
from httpx import Response

from notifier.domain.audience.tiers import Tier
from notifier.domain.bursts.held_mention import ModerationDecision
from notifier.domain.bursts.moderation import ReachWord, Verdict
from notifier.domain.delivery.plan import SetHead
from notifier.domain.delivery.throttle import Throttle
from notifier.domain.errors import CacheUnavailable, LogUnavailable
from notifier.domain.ids import Kind, Subject, UserId
from notifier.flow.intake.held_mentions import Release
from notifier.flow.operations.event_status import LOOKED_THROUGH
from tests.http.problems import assert_problem
from tests.support.example_event import event
from tests.support.fakes.clock import START
from tests.support.http_app import Edge


def test_an_event_that_nobody_sent_is_unknown(edge: Edge) -> None:
    assert_problem(edge.fate("7"), 404, "not_found")


def test_an_event_is_accepted_until_it_is_sequenced(edge: Edge) -> None:
    edge.post(event("7"))
    assert edge.fate("7").json() == {"id": "7", "status": "accepted", "accounts": []}


@pytest.mark.parametrize("routed", [False, True])
@pytest.mark.parametrize("query", [{}, {"source": "//tweets"}])
def test_an_event_that_waits_is_found_in_the_log_after_the_cache_was_emptied(
    edge: Edge, routed: bool, query: dict[str, str]
) -> None:
    edge.post(event("7"))
    edge.house.recent.wipe()
    if routed:
        edge.house.pump(0)
    assert edge.fate("7", **query).json() == {"id": "7", "status": "accepted", "accounts": []}
    for other, elsewhere in (("77", {}), ("t7", {}), ("7", {"source": "//elsewhere"})):
        assert_problem(edge.fate(other, **elsewhere), 404, "not_found")
    edge.house.sequence()
    assert edge.fate("7", **query).json()["status"] == "sequenced"


def test_an_event_that_waits_is_found_without_the_cache(edge: Edge) -> None:
    edge.post(event("7"))
    edge.house.broken.cache = CacheUnavailable()
    assert edge.fate("7").json()["status"] == "accepted"
    assert_problem(edge.fate("8"), 404, "not_found")


def test_an_event_that_is_sequenced_while_the_log_is_looked_through_is_not_called_unknown(edge: Edge) -> None:
    edge.post(event("7"))
    edge.house.recent.wipe()
    edge.house.log.before_looks = edge.house.sequence
    assert edge.fate("7").json()["status"] == "sequenced"


def test_a_log_that_is_too_far_behind_to_be_looked_through_calls_nothing_unknown(edge: Edge) -> None:
    for number in range(0, LOOKED_THROUGH, 1_000):
        assert edge.batch(*(event(f"{number + n}") for n in range(1_000))).status_code == 202
    edge.house.recent.wipe()
    assert edge.fate("0").json()["status"] == "accepted"
    assert_problem(edge.fate("never sent"), 503, "unavailable")


def test_one_question_at_a_time_looks_through_the_log_and_the_others_keep_nobody_waiting(edge: Edge) -> None:
    edge.post(event("7"))
    edge.house.recent.wipe()
    meanwhile: list[Response] = []

    def ask() -> None:
        edge.house.log.before_looks = lambda: None
        meanwhile.extend([edge.fate("7"), edge.post(event("8"))])

    edge.house.log.before_looks = ask
    assert edge.fate("7").json()["status"] == "accepted"
    refused, accepted = meanwhile
    assert_problem(refused, 503, "unavailable")
    assert refused.headers["retry-after"] == "1"
    assert accepted.status_code == 202
    assert_problem(edge.fate("never sent"), 404, "not_found")


def test_an_id_that_is_part_of_everything_is_not_found_in_it(edge: Edge) -> None:
    edge.post(event("event-7"))
    edge.house.recent.wipe()
    for id in ("event", "e", "7", "event-77"):
        assert_problem(edge.fate(id), 404, "not_found")


def test_without_cache_and_log_an_event_that_waits_is_not_called_unknown(edge: Edge) -> None:
    edge.post(event("7"))
    edge.house.broken.cache, edge.house.broken.log = CacheUnavailable(), LogUnavailable()
    assert_problem(edge.fate("7"), 503, "log_unavailable")


def test_a_mention_has_a_burst_for_the_followers_and_one_for_the_mentioned(edge: Edge) -> None:
    edge.post(event("7"))
    edge.house.sequence()
    fate = edge.fate("7").json()
    [account] = fate["accounts"]
    assert (fate["status"], account["account"], account["refusal"]) == ("sequenced", "nova", None)
    assert {burst["burst"] for burst in account["bursts"]} == {"mention:nova#1", "self:nova#1"}
    assert {(burst["count"], burst["lane"]) for burst in account["bursts"]} == {(1, "standard")}


def test_each_tier_says_how_far_it_is(edge: Edge) -> None:
    edge.post(event("7"))
    edge.house.sequence()
    before = tier(edge, "p1")
    assert before == {"state": "planned", "slices": {"total": 1, "ended": 0}, "people": 0, "eta_seconds": None}
    edge.house.deliver()
    after = tier(edge, "p1")
    assert after == {"state": "done", "slices": {"total": 1, "ended": 1}, "people": 3, "eta_seconds": 0.0}


def test_a_throttled_tier_is_parked(edge: Edge) -> None:
    pause = Throttle(
        id="t1",
        tier=Tier.P1,
        rate=None,
        reason="a test",
        who="a test",
        starts_at=START,
        ends_at=START + timedelta(hours=1),
    )
    edge.house.throttles.put(pause)
    edge.post(event("7"))
    edge.house.sequence()
    edge.house.deliver()
    assert (tier(edge, "p1")["state"], tier(edge, "p2")["state"]) == ("parked", "done")
    edge.house.clock.advance(timedelta(hours=2))
    assert tier(edge, "p1")["state"] == "planned"


def test_refusals_are_told_account_by_account(edge: Edge) -> None:
    edge.post(event("7", mentions=["nobody", "gone", "ada", "nova"]))
    assert edge.refusals("7") == {
        "nobody": "unknown_account",
        "gone": "deleted_account",
        "ada": "self_mention",
        "nova": None,
    }


def test_who_wants_no_mentions_is_refused_and_told_alone(edge: Edge) -> None:
    edge.post(event("7", mentions=["shy"]))
    edge.house.sequence()
    [account] = edge.fate("7").json()["accounts"]
    assert (account["account"], account["refusal"]) == ("shy", "not_wanted")
    assert [burst["burst"] for burst in account["bursts"]] == ["self:shy#1"]


def test_a_mention_of_somebody_without_followers_is_done_at_once(edge: Edge) -> None:
    edge.post(event("7", mentions=["quiet"]))
    edge.house.sequence()
    [burst] = [one for one in edge.fate("7").json()["accounts"][0]["bursts"] if one["burst"] == "mention:quiet#1"]
    assert {(one["state"], one["slices"]["total"]) for one in burst["tiers"].values()} == {("done", 0)}


def test_a_mention_that_is_served_by_pull_alone_says_why(edge: Edge) -> None:
    nova = Subject(Kind.MENTION, UserId("nova"))
    edge.house.sets.put_heads({nova: SetHead(total=200_000, counts=(200_000,))})
    edge.batch(*(event(f"{n}", author="bob", protected=True) for n in range(8)))
    edge.house.sequence()
    found = [edge.fate(f"{n}").json()["accounts"][0]["bursts"] for n in range(8)]
    bursts = [burst for both in found for burst in both if burst["burst"].startswith("mention:")]
    sentence = "Served by pull: the budget of fan-outs was spent."
    told = [burst for burst in bursts if burst["note"] == sentence]
    assert sorted(burst["burst"] for burst in told) == ["mention:nova#7", "mention:nova#8"]
    assert {burst["note"] for burst in bursts if burst not in told} == {None}
    pulled = {"state": "pulled", "slices": {"total": 0, "ended": 0}, "people": 0, "eta_seconds": 0.0}
    assert [burst["tiers"] for burst in told] == [{"p0": pulled, "p1": pulled, "p2": pulled}] * 2


def test_fifty_accounts_of_one_tweet_have_a_fate_each(edge: Edge) -> None:
    names = [f"x{number}" for number in range(49)]
    edge.post(event("7", mentions=[*names, "nova"]))
    assert edge.refusals("7") == {**dict.fromkeys(names, "unknown_account"), "nova": None}


def test_one_id_of_two_sources_is_told_apart_by_the_source(edge: Edge) -> None:
    edge.post(event("7", mentions=["nobody"]))
    edge.post(event("7", more={"source": "//elsewhere"}))
    edge.house.sequence()
    assert {one["source"] for one in edge.fate("7").json()["accounts"]} == {"//tweets", "//elsewhere"}
    [account] = edge.fate("7", source="//elsewhere").json()["accounts"]
    assert account["account"] == "nova"
    assert_problem(edge.fate("7", source="//nowhere"), 404, "not_found")


def test_an_id_may_have_slashes_and_letters_of_all_kinds(edge: Edge) -> None:
    edge.post(event("a/b c/ü?"))
    assert edge.fate("a%2Fb%20c%2F%C3%BC%3F").json()["id"] == "a/b c/ü?"


def tier(edge: Edge, name: str) -> dict[str, object]:
    """Of nova's followers."""
    [burst] = [one for one in edge.fate("7").json()["accounts"][0]["bursts"] if one["burst"] == "mention:nova#1"]
    found: dict[str, object] = burst["tiers"][name]
    return found


def test_a_held_mention_is_told_as_held_and_once_it_is_let_go_by_its_bursts(edge: Edge) -> None:
    reach(edge, "bob", Verdict.HOLD)
    edge.post(event("7", author="bob"))
    edge.post(event("8", author="bob"))
    assert [edge.refusals(id) for id in ("7", "8")] == [{"nova": "held"}] * 2
    first, second = sorted(edge.house.ports.holds.waiting(), key=lambda hold: hold.id)
    Release.of(edge.house.ports)([first], "amy")
    assert edge.fate("7").json()["status"] == "accepted"
    edge.house.ports.holds.decide(second.id, ModerationDecision.DROPPED, "amy", edge.house.clock.now())
    assert [edge.refusals(id) for id in ("7", "8")] == [{"nova": None}, {"nova": "denied"}]
    [account] = edge.fate("7").json()["accounts"]
    assert {burst["burst"] for burst in account["bursts"]} == {"mention:nova#1", "self:nova#1"}


def test_a_held_event_is_asked_for_by_its_source_as_any_other(edge: Edge) -> None:
    reach(edge, "bob", Verdict.HOLD)
    edge.post(event("7", author="bob"))
    edge.house.sequence()
    assert edge.fate("7", source="//tweets").json()["accounts"][0]["refusal"] == "held"
    assert_problem(edge.fate("7", source="//elsewhere"), 404, "not_found")


def reach(edge: Edge, user: str, verdict: Verdict) -> None:
    word = ReachWord(user=UserId(user), verdict=verdict, reason="a flood", who="amy", at=edge.house.clock.now())
    edge.house.ports.reaches.say(word)
