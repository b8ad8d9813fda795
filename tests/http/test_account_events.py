"""Account events in `/v1/events` change VIP flags, deleted accounts and activity."""

from notifier.domain.audience.activity import hour_of
from notifier.domain.audience.bitmap import contains
from notifier.domain.audience.tiers import SetKind
from notifier.domain.ids import UserId
from notifier.domain.upstream.validation import CHANGED_TYPE, SEEN_TYPE
from tests.http.error_response_checks import assert_problem
from tests.support.example_event import event
from tests.support.in_memory_http_api import Edge


def account(user: str, sequence: int, **flags: bool) -> dict[str, object]:
    return {**event(f"{user}{sequence}"), "type": CHANGED_TYPE, "data": {"user": user, "sequence": sequence, **flags}}


def accept(edge: Edge, *accounts: dict[str, object]) -> None:
    for event_ in accounts:
        assert edge.post(event_).json()["status"] == "accepted"
    edge.backend.sequence()


def is_vip(edge: Edge, user: str) -> bool:
    member = edge.backend.ports.directory.accounts([UserId(user)])[UserId(user)].member
    return contains(edge.backend.ports.sets.read(SetKind.VIP, None, [0])[0], member)


def test_vip_flag_is_set_and_removed_by_events(edge: Edge) -> None:
    accept(edge, account("u1", 2, vip=True), account("u2", 2, vip=True), account("u2", 1, vip=False))
    assert (is_vip(edge, "u1"), is_vip(edge, "u2")) == (True, True)
    accept(edge, account("u1", 3, vip=False))
    assert (is_vip(edge, "u1"), is_vip(edge, "u2")) == (False, True)


def test_mention_of_deleted_account_is_refused(edge: Edge) -> None:
    accept(edge, account("nova", 1, deleted=True))
    edge.post(event("e1"))
    edge.backend.sequence()
    assert edge.get_event("e1").json()["accounts"][0]["refusal"] == "deleted_account"
    accept(edge, account("nova", 2, deleted=False))
    edge.post(event("e2"))
    edge.backend.sequence()
    assert edge.get_event("e2").json()["accounts"][0]["bursts"]


def test_repeated_account_event_is_accepted(edge: Edge) -> None:
    accept(edge, account("u1", 2, vip=True), account("u1", 2, vip=True))
    assert is_vip(edge, "u1")


def test_account_event_has_no_dry_run(edge: Edge) -> None:
    response = edge.client.post("/v1/events?dry_run=true", json=account("u1", 1, vip=True), headers=edge.service)
    assert_problem(response, 400, "not_supported")


def test_user_seen_elsewhere_is_active_in_this_hour(edge: Edge) -> None:
    accept(edge, {**event("s1"), "type": SEEN_TYPE, "data": {"user": "u1"}})
    backend = edge.backend
    member = backend.ports.directory.accounts([UserId("u1")])[UserId("u1")].member
    active = backend.ports.active_hours.read(hour_of(backend.clock.now()), [0])
    assert contains(active[0], member)
