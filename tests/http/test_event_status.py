"""`GET /v1/events/{id}`: the status of an event for its sender."""

from datetime import timedelta

import pytest
from httpx import Response

from notifier.domain.audience.tiers_and_member_sets import Tier
from notifier.domain.bursts.held_mention import ModerationDecision
from notifier.domain.bursts.moderation import AuthorVerdict, Verdict
from notifier.domain.delivery.plan import FollowerCounts
from notifier.domain.delivery.throttle_and_backpressure import Throttle
from notifier.domain.errors import CacheUnavailable, LogUnavailable
from notifier.domain.ids import Kind, Subject, UserId
from notifier.flow.intake.held_mention_release import HeldMentionRelease
from notifier.flow.operations.event_status import MAX_SEARCHED_RECORDS
from tests.http.error_response_checks import assert_problem
from tests.support.example_event_and_acceptance import event
from tests.support.fakes.clock_and_nonces import START
from tests.support.in_memory_http_api import ApiClient


def test_unknown_event_is_not_found(api_client: ApiClient) -> None:
    assert_problem(api_client.get_event("7"), 404, "not_found")


def test_event_is_accepted_until_it_is_sequenced(api_client: ApiClient) -> None:
    api_client.post(event("7"))
    assert api_client.get_event("7").json() == {"id": "7", "status": "accepted", "accounts": []}


@pytest.mark.parametrize("routed", [False, True])
@pytest.mark.parametrize("query", [{}, {"source": "//tweets"}])
def test_waiting_event_is_found_in_the_log_after_a_cache_flush(
    api_client: ApiClient, routed: bool, query: dict[str, str]
) -> None:
    api_client.post(event("7"))
    api_client.backend.recent.wipe()
    if routed:
        api_client.backend.pump(0)
    assert api_client.get_event("7", **query).json() == {"id": "7", "status": "accepted", "accounts": []}
    for id, query_ in (("77", {}), ("t7", {}), ("7", {"source": "//elsewhere"})):
        assert_problem(api_client.get_event(id, **query_), 404, "not_found")
    api_client.backend.sequence()
    assert api_client.get_event("7", **query).json()["status"] == "sequenced"


def test_waiting_event_is_found_without_the_cache(api_client: ApiClient) -> None:
    api_client.post(event("7"))
    api_client.backend.port_errors.cache = CacheUnavailable()
    assert api_client.get_event("7").json()["status"] == "accepted"
    assert_problem(api_client.get_event("8"), 404, "not_found")


def test_event_sequenced_during_the_log_search_is_found(api_client: ApiClient) -> None:
    api_client.post(event("7"))
    api_client.backend.recent.wipe()
    api_client.backend.log.before_read = api_client.backend.sequence
    assert api_client.get_event("7").json()["status"] == "sequenced"


def test_search_of_a_long_log_never_reports_not_found(api_client: ApiClient) -> None:
    for number in range(0, MAX_SEARCHED_RECORDS, 1_000):
        assert api_client.batch(*(event(f"{number + n}") for n in range(1_000))).status_code == 202
    api_client.backend.recent.wipe()
    assert api_client.get_event("0").json()["status"] == "accepted"
    assert_problem(api_client.get_event("never sent"), 503, "unavailable")


def test_only_one_request_searches_the_log_at_a_time(api_client: ApiClient) -> None:
    api_client.post(event("7"))
    api_client.backend.recent.wipe()
    responses: list[Response] = []

    def ask_meanwhile() -> None:
        api_client.backend.log.before_read = lambda: None
        responses.extend([api_client.get_event("7"), api_client.post(event("8"))])

    api_client.backend.log.before_read = ask_meanwhile
    assert api_client.get_event("7").json()["status"] == "accepted"
    refused, accepted = responses
    assert_problem(refused, 503, "unavailable")
    assert refused.headers["retry-after"] == "1"
    assert accepted.status_code == 202
    assert_problem(api_client.get_event("never sent"), 404, "not_found")


def test_log_search_matches_whole_ids_only(api_client: ApiClient) -> None:
    api_client.post(event("event-7"))
    api_client.backend.recent.wipe()
    for id in ("event", "e", "7", "event-77"):
        assert_problem(api_client.get_event(id), 404, "not_found")


def test_waiting_event_without_cache_and_log_is_unavailable(api_client: ApiClient) -> None:
    api_client.post(event("7"))
    api_client.backend.port_errors.cache, api_client.backend.port_errors.log = CacheUnavailable(), LogUnavailable()
    assert_problem(api_client.get_event("7"), 503, "log_unavailable")


def test_mention_has_a_burst_for_followers_and_one_for_the_account(api_client: ApiClient) -> None:
    api_client.post(event("7"))
    api_client.backend.sequence()
    status = api_client.get_event("7").json()
    [account] = status["accounts"]
    assert (status["status"], account["account"], account["refusal"]) == ("sequenced", "nova", None)
    assert {burst["burst"] for burst in account["bursts"]} == {"mention:nova#1", "self:nova#1"}
    assert {(burst["count"], burst["lane"]) for burst in account["bursts"]} == {(1, "standard")}


def test_tier_status_reports_progress(api_client: ApiClient) -> None:
    api_client.post(event("7"))
    api_client.backend.sequence()
    before = tier(api_client, "p1")
    assert before == {"state": "planned", "slices": {"total": 1, "ended": 0}, "people": 0, "eta_seconds": None}
    api_client.backend.deliver()
    after = tier(api_client, "p1")
    assert after == {"state": "done", "slices": {"total": 1, "ended": 1}, "people": 3, "eta_seconds": 0.0}


def test_throttled_tier_is_parked(api_client: ApiClient) -> None:
    pause = Throttle(
        id="t1",
        tier=Tier.P1,
        rate=None,
        reason="a test",
        operator="a test",
        starts_at=START,
        ends_at=START + timedelta(hours=1),
    )
    api_client.backend.throttles.put(pause)
    api_client.post(event("7"))
    api_client.backend.sequence()
    api_client.backend.deliver()
    assert (tier(api_client, "p1")["state"], tier(api_client, "p2")["state"]) == ("parked", "done")
    api_client.backend.clock.advance(timedelta(hours=2))
    assert tier(api_client, "p1")["state"] == "planned"


def test_refusals_are_reported_per_account(api_client: ApiClient) -> None:
    api_client.post(event("7", mentions=["nobody", "gone", "ada", "nova"]))
    assert api_client.refusals("7") == {
        "nobody": "unknown_account",
        "gone": "deleted_account",
        "ada": "self_mention",
        "nova": None,
    }


def test_unwanted_mention_is_refused_but_shown_to_the_account(api_client: ApiClient) -> None:
    api_client.post(event("7", mentions=["shy"]))
    api_client.backend.sequence()
    [account] = api_client.get_event("7").json()["accounts"]
    assert (account["account"], account["refusal"]) == ("shy", "not_wanted")
    assert [burst["burst"] for burst in account["bursts"]] == ["self:shy#1"]


def test_mention_of_an_account_without_followers_is_done_at_once(api_client: ApiClient) -> None:
    api_client.post(event("7", mentions=["quiet"]))
    api_client.backend.sequence()
    [burst] = [
        entry
        for entry in api_client.get_event("7").json()["accounts"][0]["bursts"]
        if entry["burst"] == "mention:quiet#1"
    ]
    assert {(tier["state"], tier["slices"]["total"]) for tier in burst["tiers"].values()} == {("done", 0)}


def test_mention_served_only_by_pull_says_why(api_client: ApiClient) -> None:
    nova = Subject(Kind.MENTION, UserId("nova"))
    api_client.backend.sets.put_follower_counts({nova: FollowerCounts(total=200_000, by_shard=(200_000,))})
    api_client.batch(*(event(f"{n}", author="bob", protected=True) for n in range(8)))
    api_client.backend.sequence()
    by_event = [api_client.get_event(f"{n}").json()["accounts"][0]["bursts"] for n in range(8)]
    bursts = [burst for group in by_event for burst in group if burst["burst"].startswith("mention:")]
    sentence = "Served by the pull path: the fan-out budget was spent."
    pulled_bursts = [burst for burst in bursts if burst["note"] == sentence]
    assert sorted(burst["burst"] for burst in pulled_bursts) == ["mention:nova#7", "mention:nova#8"]
    assert {burst["note"] for burst in bursts if burst not in pulled_bursts} == {None}
    pulled = {"state": "pulled", "slices": {"total": 0, "ended": 0}, "people": 0, "eta_seconds": 0.0}
    assert [burst["tiers"] for burst in pulled_bursts] == [{"p0": pulled, "p1": pulled, "p2": pulled}] * 2


def test_fifty_accounts_of_one_tweet_have_a_status_each(api_client: ApiClient) -> None:
    names = [f"x{number}" for number in range(49)]
    api_client.post(event("7", mentions=[*names, "nova"]))
    assert api_client.refusals("7") == {**dict.fromkeys(names, "unknown_account"), "nova": None}


def test_source_distinguishes_events_with_the_same_id(api_client: ApiClient) -> None:
    api_client.post(event("7", mentions=["nobody"]))
    api_client.post(event("7", more={"source": "//elsewhere"}))
    api_client.backend.sequence()
    assert {account["source"] for account in api_client.get_event("7").json()["accounts"]} == {
        "//tweets",
        "//elsewhere",
    }
    [account] = api_client.get_event("7", source="//elsewhere").json()["accounts"]
    assert account["account"] == "nova"
    assert_problem(api_client.get_event("7", source="//nowhere"), 404, "not_found")


def test_event_id_may_contain_slashes_and_any_letters(api_client: ApiClient) -> None:
    api_client.post(event("a/b c/ü?"))
    assert api_client.get_event("a%2Fb%20c%2F%C3%BC%3F").json()["id"] == "a/b c/ü?"


def tier(api_client: ApiClient, name: str) -> dict[str, object]:
    """Return the state of a tier of nova's followers."""
    [burst] = [
        entry
        for entry in api_client.get_event("7").json()["accounts"][0]["bursts"]
        if entry["burst"] == "mention:nova#1"
    ]
    result: dict[str, object] = burst["tiers"][name]
    return result


def test_held_mention_is_reported_until_it_is_decided(api_client: ApiClient) -> None:
    set_verdict(api_client, "bob", Verdict.HOLD)
    api_client.post(event("7", author="bob"))
    api_client.post(event("8", author="bob"))
    assert [api_client.refusals(id) for id in ("7", "8")] == [{"nova": "held"}] * 2
    first, second = sorted(api_client.backend.ports.held_mentions.waiting(), key=lambda hold: hold.id)
    HeldMentionRelease.of(api_client.backend.ports)([first], "amy")
    assert api_client.get_event("7").json()["status"] == "accepted"
    api_client.backend.ports.held_mentions.decide(
        second.id, ModerationDecision.DROPPED, "amy", api_client.backend.clock.now()
    )
    assert [api_client.refusals(id) for id in ("7", "8")] == [{"nova": None}, {"nova": "denied"}]
    [account] = api_client.get_event("7").json()["accounts"]
    assert {burst["burst"] for burst in account["bursts"]} == {"mention:nova#1", "self:nova#1"}


def test_held_event_is_found_by_its_source(api_client: ApiClient) -> None:
    set_verdict(api_client, "bob", Verdict.HOLD)
    api_client.post(event("7", author="bob"))
    api_client.backend.sequence()
    assert api_client.get_event("7", source="//tweets").json()["accounts"][0]["refusal"] == "held"
    assert_problem(api_client.get_event("7", source="//elsewhere"), 404, "not_found")


def set_verdict(api_client: ApiClient, user: str, verdict: Verdict) -> None:
    limit = AuthorVerdict(
        user=UserId(user), verdict=verdict, reason="a flood", operator="amy", at=api_client.backend.clock.now()
    )
    api_client.backend.ports.author_verdicts.put(limit)
