"""Account events in `/v1/events` change VIP flags, deleted accounts and activity."""

from notifier.domain.audience.activity import hour_of
from notifier.domain.audience.bitmap import contains
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.ids import UserId
from notifier.domain.upstream.validation import CHANGED_TYPE, SEEN_TYPE
from tests.http.error_response_checks import assert_problem
from tests.support.example_event_and_acceptance import event
from tests.support.in_memory_http_api import ApiClient


def account(user: str, sequence: int, **flags: bool) -> dict[str, object]:
    return {**event(f"{user}{sequence}"), "type": CHANGED_TYPE, "data": {"user": user, "sequence": sequence, **flags}}


def accept(api_client: ApiClient, *accounts: dict[str, object]) -> None:
    for event_ in accounts:
        assert api_client.post(event_).json()["status"] == "accepted"
    api_client.backend.sequence()


def is_vip(api_client: ApiClient, user: str) -> bool:
    member = api_client.backend.ports.directory.accounts([UserId(user)])[UserId(user)].member
    return contains(api_client.backend.ports.sets.read(SetKind.VIP, None, [0])[0], member)


def test_vip_flag_is_set_and_removed_by_events(api_client: ApiClient) -> None:
    accept(api_client, account("u1", 2, vip=True), account("u2", 2, vip=True), account("u2", 1, vip=False))
    assert (is_vip(api_client, "u1"), is_vip(api_client, "u2")) == (True, True)
    accept(api_client, account("u1", 3, vip=False))
    assert (is_vip(api_client, "u1"), is_vip(api_client, "u2")) == (False, True)


def test_mention_of_deleted_account_is_refused(api_client: ApiClient) -> None:
    accept(api_client, account("nova", 1, deleted=True))
    api_client.post(event("e1"))
    api_client.backend.sequence()
    assert api_client.get_event("e1").json()["accounts"][0]["refusal"] == "deleted_account"
    accept(api_client, account("nova", 2, deleted=False))
    api_client.post(event("e2"))
    api_client.backend.sequence()
    assert api_client.get_event("e2").json()["accounts"][0]["bursts"]


def test_repeated_account_event_is_accepted(api_client: ApiClient) -> None:
    accept(api_client, account("u1", 2, vip=True), account("u1", 2, vip=True))
    assert is_vip(api_client, "u1")


def test_account_event_has_no_dry_run(api_client: ApiClient) -> None:
    response = api_client.http.post(
        "/v1/events?dry_run=true", json=account("u1", 1, vip=True), headers=api_client.service
    )
    assert_problem(response, 400, "not_supported")


def test_user_seen_elsewhere_is_active_in_this_hour(api_client: ApiClient) -> None:
    accept(api_client, {**event("s1"), "type": SEEN_TYPE, "data": {"user": "u1"}})
    backend = api_client.backend
    member = backend.ports.directory.accounts([UserId("u1")])[UserId("u1")].member
    active = backend.ports.active_hours.read(hour_of(backend.clock.now()), [0])
    assert contains(active[0], member)
