"""What is said of an account by `/v1/events`: seen in who comes first, who is there, and who is around."""

from notifier.domain.audience.activity import hour_of
from notifier.domain.audience.bitmap import holds
from notifier.domain.audience.tiers import SetKind
from notifier.domain.ids import UserId
from notifier.domain.upstream.validation import CHANGED_TYPE, SEEN_TYPE
from tests.http.problems import assert_problem
from tests.support.example_event import event
from tests.support.http_app import Edge


def account(user: str, sequence: int, **said: bool) -> dict[str, object]:
    return {**event(f"{user}{sequence}"), "type": CHANGED_TYPE, "data": {"user": user, "sequence": sequence, **said}}


def said(edge: Edge, *accounts: dict[str, object]) -> None:
    for one in accounts:
        assert edge.post(one).json()["status"] == "accepted"
    edge.house.sequence()


def vip(edge: Edge, user: str) -> bool:
    member = edge.house.ports.directory.accounts([UserId(user)])[UserId(user)].member
    return holds(edge.house.ports.sets.read(SetKind.VIP, None, [0])[0], member)


def test_who_is_flagged_comes_first_and_no_longer_when_the_flag_is_taken(edge: Edge) -> None:
    said(edge, account("u1", 2, vip=True), account("u2", 2, vip=True), account("u2", 1, vip=False))
    assert (vip(edge, "u1"), vip(edge, "u2")) == (True, True)
    said(edge, account("u1", 3, vip=False))
    assert (vip(edge, "u1"), vip(edge, "u2")) == (False, True)


def test_of_a_deleted_account_no_mention_is_taken(edge: Edge) -> None:
    said(edge, account("nova", 1, deleted=True))
    edge.post(event("e1"))
    edge.house.sequence()
    assert edge.fate("e1").json()["accounts"][0]["refusal"] == "deleted_account"
    said(edge, account("nova", 2, deleted=False))
    edge.post(event("e2"))
    edge.house.sequence()
    assert edge.fate("e2").json()["accounts"][0]["bursts"]


def test_what_is_sent_again_is_accepted_again(edge: Edge) -> None:
    said(edge, account("u1", 2, vip=True), account("u1", 2, vip=True))
    assert vip(edge, "u1")


def test_there_is_no_dry_run_of_it(edge: Edge) -> None:
    asked = edge.client.post("/v1/events?dry_run=true", json=account("u1", 1, vip=True), headers=edge.service)
    assert_problem(asked, 400, "not_supported")


def test_who_was_seen_elsewhere_is_around_in_this_hour(edge: Edge) -> None:
    said(edge, {**event("s1"), "type": SEEN_TYPE, "data": {"user": "u1"}})
    house = edge.house
    member = house.ports.directory.accounts([UserId("u1")])[UserId("u1")].member
    around = house.ports.active_hours.read(hour_of(house.clock.now()), [0])
    assert holds(around[0], member)
