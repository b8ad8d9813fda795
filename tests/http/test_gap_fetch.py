"""Gap fetch over HTTP: missed bursts of one subject that the user may see."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import httpx
import pytest

from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import Kind, Subject, UserId
from notifier.domain.users.account_preferences import AccountPreferencesPatch
from notifier.domain.users.subject_preferences import Volume
from tests.http.error_response_checks import assert_problem
from tests.support.domain_examples import burst
from tests.support.example_event_and_acceptance import event
from tests.support.fakes.clock_and_nonces import START
from tests.support.in_memory_http_api import ApiClient, MemoryBackend

U1, NOVA, BOB = UserId("u1"), UserId("nova"), UserId("bob")
NOVA_MENTIONS, BOB_MENTIONS = Subject(Kind.MENTION, NOVA), Subject(Kind.MENTION, BOB)
FIRST = int(START.timestamp())
BURST_WINDOW = timedelta(minutes=2)
"""A mention later than this opens another burst."""
UNKNOWN = "mention:who-is-this"


def test_gap_fetch_returns_items_as_inbox_lists_them(api_client: ApiClient) -> None:
    open_bursts(api_client, 3)
    page = gap_page(api_client, FIRST)
    assert page == {"items": api_client.inbox("u1").json()["items"], "next": None, "partial": False}


def test_seq_is_second_of_opening_for_every_viewer(api_client: ApiClient) -> None:
    api_client.backend.clock.advance(timedelta(milliseconds=700))
    open_bursts(api_client, 2)
    seqs = [[item["seq"] for item in gap_page(api_client, 0, user)["items"]] for user in ("u1", "u2")]
    assert seqs == [[FIRST + 120, FIRST]] * 2
    assert [item["opened_at"] for item in gap_page(api_client, 0)["items"]] == [
        "2026-01-05T12:02:00Z",
        "2026-01-05T12:00:00Z",
    ]


@pytest.mark.parametrize(
    ("first", "last", "expected_seqs"),
    [
        (0, None, [240, 120, 0]),
        (FIRST, FIRST + 240, [240, 120, 0]),
        (FIRST + 1, None, [240, 120]),
        (FIRST, FIRST + 239, [120, 0]),
        (FIRST + 120, FIRST + 120, [120]),
        (FIRST + 121, FIRST + 239, []),
        (FIRST + 10_000, None, []),
        (0, 253_402_300_799, [240, 120, 0]),
    ],
)
def test_range_includes_both_ends(
    api_client: ApiClient, first: int, last: int | None, expected_seqs: list[int]
) -> None:
    open_bursts(api_client, 3)
    assert [item["seq"] - FIRST for item in gap_page(api_client, first, last=last)["items"]] == expected_seqs


def test_pages_follow_cursor_and_link(api_client: ApiClient) -> None:
    open_bursts(api_client, 5)
    query = {"from": FIRST, "to": FIRST + 360, "limit": 2}
    by_cursor = api_client.gaps("u1", query)
    second = api_client.gaps("u1", {**query, "cursor": by_cursor.json()["next"]})
    by_link = api_client.http.get(by_cursor.links["next"]["url"], headers=api_client.bearer("u1"))
    assert by_link.json() == second.json()
    assert [seqs(by_cursor), seqs(second)] == [[360, 240], [120, 0]]
    assert (second.json()["next"], second.links) == (None, {})


def test_pages_make_progress_within_one_second(api_client: ApiClient) -> None:
    """Each mention by a protected account is a burst of its own, a millisecond after the previous one."""
    api_client.backend.people.follow(UserId("u2"), BOB_MENTIONS, START - timedelta(days=1))
    api_client.batch(*(event(f"s{n}", author="bob", protected=True) for n in range(120)))
    api_client.backend.sequence()
    api_client.backend.clock.advance(BURST_WINDOW)
    pages = [api_client.gaps("u2", {"from": FIRST, "to": FIRST})]
    while "next" in pages[-1].links:
        pages.append(api_client.http.get(pages[-1].links["next"]["url"], headers=api_client.bearer("u2")))
    assert [len(page.json()["items"]) for page in pages] == [50, 50, 20]
    items = [item for page in pages for item in page.json()["items"]]
    assert items[:100] == api_client.inbox("u2", limit=100).json()["items"]
    assert {item["tweet"] for item in items} == {f"ts{n}" for n in range(120)}
    assert {item["seq"] for item in items} == {FIRST}


def test_burst_ahead_of_clock_is_reported_as_current_second(api_client: ApiClient) -> None:
    """The last of 200 bursts that are numbered at once opens in the next second."""
    api_client.backend.people.follow(UserId("u2"), BOB_MENTIONS, START - timedelta(days=1))
    api_client.backend.clock.advance(timedelta(milliseconds=900))
    api_client.batch(*(event(f"s{n}", author="bob", protected=True) for n in range(200)))
    api_client.backend.sequence()
    newest = api_client.gaps("u2", {"from": FIRST, "to": FIRST, "limit": 100}).json()["items"]
    assert newest == api_client.inbox("u2", limit=100).json()["items"]
    assert {item["seq"] for item in newest} == {FIRST}
    assert api_client.gaps("u2", {"from": FIRST + 1}).json()["items"] == []


def test_hidden_item_is_not_returned(api_client: ApiClient) -> None:
    open_bursts(api_client, 2)
    ids = [item["burst"] for item in gap_page(api_client, 0)["items"]]
    assert api_client.put("/v1/inbox/marks", "u1", {"bursts": ids[:1], "mark": "hidden"}).status_code == 204
    assert [item["burst"] for item in gap_page(api_client, 0)["items"]] == ids[1:]


def test_own_mentions_are_returned_by_own_subject(api_client: ApiClient) -> None:
    api_client.mention(account="u1")
    page = api_client.gaps("u1", {"from": 0}, subject="self:u1").json()
    assert [item["text"] for item in page["items"]] == ["ada mentioned you"]


def test_subject_may_contain_encoded_slashes(api_client: ApiClient) -> None:
    subject = Subject(Kind.MENTION, UserId("a/b//bursts/"))
    api_client.backend.people.follow(U1, subject, START - timedelta(days=1))
    api_client.backend.bursts.write([burst(subject=subject, opened_at=START)], [])
    [item] = api_client.gaps("u1", {"from": 0}, subject=str(subject)).json()["items"]
    assert item["subject"] == str(subject)
    assert_problem(
        api_client.http.get(f"/v1/subjects/{subject}/bursts?from=0", headers=api_client.bearer("u1")),
        404,
        "not_found",
    )


def unfollow(backend: MemoryBackend) -> None:
    backend.people.unfollow(U1, NOVA_MENTIONS)


def mute(backend: MemoryBackend) -> None:
    backend.people.mute(U1, NOVA_MENTIONS)


def block(backend: MemoryBackend) -> None:
    backend.people.block(U1, NOVA)


def block_viewer(backend: MemoryBackend) -> None:
    backend.people.block(NOVA, U1)


def follow_later(backend: MemoryBackend) -> None:
    backend.people.follow(U1, NOVA_MENTIONS, backend.clock.now())


def choose_digest(backend: MemoryBackend) -> None:
    backend.people.volume(U1, NOVA_MENTIONS, Volume.DIGEST)


def turn_off_all(backend: MemoryBackend) -> None:
    backend.people.patch_account(U1, AccountPreferencesPatch(volume=Volume.OFF))


@pytest.mark.parametrize(
    "change",
    [unfollow, mute, block, block_viewer, follow_later, choose_digest, turn_off_all],
    ids=lambda change: change.__name__,
)
@pytest.mark.parametrize("outage", [False, True], ids=["", "outage"])
def test_subject_not_for_viewer_answers_like_unknown_subject(
    api_client: ApiClient, change: Callable[[MemoryBackend], None], outage: bool
) -> None:
    open_bursts(api_client, 3)
    api_client.backend.deliver()
    assert len(gap_page(api_client, 0)["items"]) == 3
    change(api_client.backend)
    api_client.backend.port_errors.store = StoreUnavailable() if outage else None
    for query in ({"from": 0}, {"from": FIRST, "to": FIRST + 240, "limit": 1}, {"from": FIRST + 9_999}):
        assert serialize_response(api_client.gaps("u1", query)) == serialize_response(
            api_client.gaps("u1", query, subject=UNKNOWN)
        )


@pytest.mark.parametrize("subject", ["self:nova", "self:u2", "digest:u1", "digest:u2", "mention:u2"])
def test_subject_of_others_answers_like_unknown_subject(api_client: ApiClient, subject: str) -> None:
    open_bursts(api_client, 1)
    api_client.mention(account="u2")
    assert serialize_response(api_client.gaps("u1", {"from": 0}, subject=subject)) == serialize_response(
        api_client.gaps("u1", {"from": 0}, subject=UNKNOWN)
    )


def test_subject_with_restricted_bursts_only_answers_like_unknown_subject(api_client: ApiClient) -> None:
    api_client.batch(*(event(f"s{n}", author="bob", protected=True) for n in range(300)))
    api_client.backend.sequence()
    api_client.backend.clock.advance(BURST_WINDOW)
    assert serialize_response(api_client.gaps("u1", {"from": 0})) == serialize_response(
        api_client.gaps("u1", {"from": 0}, subject=UNKNOWN)
    )


@pytest.mark.parametrize("subject", ["nova", "mention:", ":nova", "tweet:nova", "mention%3Anova", "%00"])
def test_malformed_subject_is_rejected(api_client: ApiClient, subject: str) -> None:
    assert_problem(api_client.gaps("u1", {"from": 0}, subject=subject), 400, "bad_subject")


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"from": ""},
        {"from": "x"},
        {"from": -1},
        {"from": "1.5"},
        {"from": 253_402_300_800},
        {"from": "9" * 400},
        {"from": 0, "to": -1},
        {"from": 0, "to": 253_402_300_800},
        {"from": 2, "to": 1},
        {"from": 0, "limit": 0},
        {"from": 0, "limit": 101},
    ],
)
def test_malformed_range_is_rejected(api_client: ApiClient, query: Mapping[str, str | int]) -> None:
    assert_problem(api_client.gaps("u1", query), 400, "refused")


def test_inverted_range_names_the_field(api_client: ApiClient) -> None:
    body = assert_problem(api_client.gaps("u1", {"from": 2, "to": 1}), 400, "refused")
    assert body["detail"] == "from: must not be greater than `to`."


def test_cursor_of_another_user_or_subject_or_list_is_rejected(api_client: ApiClient) -> None:
    open_bursts(api_client, 2)
    query = {"from": 0, "limit": 1}
    own_cursor, inbox_cursor = (
        api_client.gaps("u1", query).json()["next"],
        api_client.inbox("u1", limit=1).json()["next"],
    )
    assert api_client.gaps("u1", {**query, "cursor": own_cursor}).status_code == 200
    for user, subject, cursor in (
        ("u2", "mention:nova", own_cursor),
        ("u1", "self:u1", own_cursor),
        ("u1", UNKNOWN, own_cursor),
        ("u1", "mention:nova", inbox_cursor),
        ("u1", "mention:nova", own_cursor[:-2]),
        ("u1", "mention:nova", ""),
    ):
        assert_problem(api_client.gaps(user, {**query, "cursor": cursor}, subject=subject), 400, "bad_cursor")
    assert_problem(api_client.inbox("u1", cursor=own_cursor), 400, "bad_cursor")


def test_unchanged_range_is_not_sent_again(api_client: ApiClient) -> None:
    open_bursts(api_client, 2)
    first = api_client.gaps("u1", {"from": 0, "limit": 1})
    assert (first.headers["cache-control"], first.headers["vary"]) == ("private, no-cache", "Authorization")
    second = api_client.gaps("u1", {"from": 0, "limit": 1}, tag=first.headers["etag"])
    assert (second.status_code, second.content) == (304, b"")
    open_bursts(api_client, 1)
    assert api_client.gaps("u1", {"from": 0, "limit": 1}, tag=first.headers["etag"]).status_code == 200


def test_store_outage_returns_partial_page_of_rows(api_client: ApiClient) -> None:
    open_bursts(api_client, 3)
    api_client.backend.deliver()
    before = gap_page(api_client, FIRST + 120)["items"]
    api_client.backend.port_errors.store = StoreUnavailable()
    assert gap_page(api_client, FIRST + 120) == {"items": before, "next": None, "partial": True}


def test_unknown_user_has_no_gaps(api_client: ApiClient) -> None:
    for user in ("nobody", "gone"):
        assert_problem(api_client.gaps(user, {"from": 0}), 404, "not_found")


def open_bursts(api_client: ApiClient, number: int) -> None:
    """Open this many bursts, two minutes apart."""
    for _ in range(number):
        api_client.mention()
        api_client.backend.clock.advance(BURST_WINDOW)


def gap_page(api_client: ApiClient, first: int, user: str = "u1", *, last: int | None = None) -> dict[str, Any]:
    response = api_client.gaps(user, {"from": first} | ({} if last is None else {"to": last}))
    assert response.status_code == 200, response.text
    return dict(response.json())


def seqs(page: httpx.Response) -> list[int]:
    return [item["seq"] - FIRST for item in page.json()["items"]]


def serialize_response(response: httpx.Response) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Return all parts of the response but the remaining rate limit, which counts the requests."""
    headers = [(name, value) for name, value in response.headers.raw if name.lower() != b"ratelimit"]
    assert response.status_code == 200
    return response.status_code, headers, response.content
