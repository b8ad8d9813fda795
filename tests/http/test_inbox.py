"""The inbox over HTTP: pages, cursors, seen tokens, marks and conditional requests."""

from datetime import timedelta

import httpx
import pytest

from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import Kind, Subject, UserId
from tests.http.error_response_checks import assert_problem
from tests.support.fakes.clock_and_nonces import START
from tests.support.in_memory_http_api import ApiClient

SEEN, MARKS = "/v1/inbox/seen", "/v1/inbox/marks"


def test_follower_sees_the_mention(api_client: ApiClient) -> None:
    api_client.mention()
    [item] = api_client.inbox("u1").json()["items"]
    assert item == {
        "burst": item["burst"],
        "subject": "mention:nova",
        "seq": int(START.timestamp()),
        "opened_at": "2026-01-05T12:00:00Z",
        "count": 1,
        "names": ["ada"],
        "more": False,
        "text": "ada mentioned @nova",
        "tweet": "tmention-0",
        "unread": True,
        "digest": None,
    }


def test_mentioned_account_sees_mention_of_itself(api_client: ApiClient) -> None:
    api_client.mention()
    assert [item["text"] for item in api_client.inbox("nova").json()["items"]] == ["ada mentioned you"]


@pytest.mark.parametrize(
    ("authors", "text"),
    [
        (["ada", "ada"], "ada, 2 mentions of @nova"),
        (["ada", "bob"], "ada and bob, 2 mentions of @nova"),
        (["ada", "bob", "u2", "u3"], "ada and others, 4 mentions of @nova"),
    ],
)
def test_mentions_within_a_minute_are_one_item_with_a_count(
    api_client: ApiClient, authors: list[str], text: str
) -> None:
    for author in authors:
        api_client.mention(author)
    [item] = api_client.inbox("u1").json()["items"]
    assert (item["text"], item["count"], item["more"]) == (text, len(authors), len(authors) > 3)
    assert item["names"] == list(dict.fromkeys(authors))[:3]


def test_item_omits_names_of_blocked_authors(api_client: ApiClient) -> None:
    api_client.mention("ada")
    api_client.mention("bob")
    api_client.backend.people.block(UserId("u1"), UserId("ada"))
    [item] = api_client.inbox("u1").json()["items"]
    assert (item["names"], item["text"], item["count"]) == (["bob"], "bob, 2 mentions of @nova", 2)


@pytest.mark.parametrize(("blocked", "tweet"), [("ada", None), ("bob", "tmention-0")])
def test_item_omits_the_tweet_of_a_blocked_opener(api_client: ApiClient, blocked: str, tweet: str | None) -> None:
    api_client.mention("ada")
    api_client.mention("bob")
    api_client.backend.people.block(UserId("u1"), UserId(blocked))
    [item] = api_client.inbox("u1").json()["items"]
    assert item["tweet"] == tweet
    assert blocked not in str(item)


def test_pages_continue_by_cursor_and_by_link(api_client: ApiClient) -> None:
    open_bursts(api_client, 5)
    first = api_client.inbox("u1", limit=2)
    second = api_client.http.get(first.links["next"]["url"], headers=api_client.bearer("u1"))
    third = api_client.inbox("u1", cursor=second.json()["next"], limit=2)
    assert [seqs(page) for page in (first, second, third)] == [[5, 4], [3, 2], [1]]
    while third.json()["next"]:
        third = api_client.inbox("u1", cursor=third.json()["next"])
        assert seqs(third) == []
    assert "link" not in third.headers


def test_badge_matches_the_items_of_the_page(api_client: ApiClient) -> None:
    open_bursts(api_client, 3)
    page = api_client.inbox("u1").json()
    assert page["badge"] == {"count": sum(item["unread"] for item in page["items"]), "more": False}
    assert page["badge"] == api_client.unread("u1")


@pytest.mark.parametrize("limit", ["0", "101", "-1", "many", ""])
def test_limit_outside_1_to_100_is_refused(api_client: ApiClient, limit: str) -> None:
    assert assert_problem(api_client.inbox("u1", limit=limit), 400, "refused")["detail"].startswith("limit: ")


@pytest.mark.parametrize("cursor", ["", "x", "AAAA", "ü", "A" * 100, "A" * 1_999])
def test_malformed_cursor_is_refused(api_client: ApiClient, cursor: str) -> None:
    assert_problem(api_client.inbox("u1", cursor=cursor), 400, "bad_cursor")


def test_cursor_of_another_user_is_refused(api_client: ApiClient) -> None:
    open_bursts(api_client, 2)
    cursor = api_client.inbox("u1", limit=1).json()["next"]
    assert_problem(api_client.inbox("u2", cursor=cursor), 400, "bad_cursor")


def test_modified_cursor_is_refused(api_client: ApiClient) -> None:
    open_bursts(api_client, 2)
    cursor = api_client.inbox("u1", limit=1).json()["next"]
    for position in range(0, len(cursor), 7):
        changed = cursor[:position] + ("A" if cursor[position] != "A" else "B") + cursor[position + 1 :]
        assert_problem(api_client.inbox("u1", cursor=changed), 400, "bad_cursor")


def test_seen_token_is_refused_as_a_cursor(api_client: ApiClient) -> None:
    open_bursts(api_client, 2)
    assert_problem(api_client.inbox("u1", cursor=api_client.inbox("u1").json()["seen"]), 400, "bad_cursor")


def test_seen_items_are_no_longer_unread(api_client: ApiClient) -> None:
    open_bursts(api_client, 2)
    token = api_client.inbox("u1").json()["seen"]
    api_client.backend.clock.advance(timedelta(minutes=2))
    api_client.mention()
    response = api_client.put(SEEN, "u1", {"token": token})
    assert (response.status_code, response.content) == (204, b"")
    page = api_client.inbox("u1").json()
    assert [item["unread"] for item in page["items"]] == [True, False, False]
    assert page["badge"] == api_client.unread("u1") == {"count": 1, "more": False}


def test_seen_token_of_another_user_or_malformed_is_refused(api_client: ApiClient) -> None:
    api_client.mention()
    page = api_client.inbox("u1", limit=1).json()
    for token in (page["seen"], "", "x", "ü"):
        assert_problem(api_client.put(SEEN, "u2", {"token": token}), 400, "bad_seen")
    assert api_client.unread("u2") == {"count": 1, "more": False}


@pytest.mark.parametrize(("mark", "unread", "listed"), [("read", 1, [2, 1]), ("unread", 2, [2, 1]), ("hidden", 1, [1])])
def test_mark_changes_the_badge_and_the_list(api_client: ApiClient, mark: str, unread: int, listed: list[int]) -> None:
    open_bursts(api_client, 2)
    assert api_client.put(MARKS, "u1", {"bursts": ids(api_client, "u1")[:1], "mark": mark}).status_code == 204
    assert api_client.unread("u1") == {"count": unread, "more": False}
    assert seqs(api_client.inbox("u1")) == listed


@pytest.mark.parametrize(
    ("bursts", "mark", "code"),
    [
        (["mention:nova#1"], "liked", "bad_mark"),
        ([], "read", "bad_mark"),
        ([f"mention:nova#{number}" for number in range(1, 102)], "read", "bad_mark"),
        (["A" * 60_000], "read", "bad_mark"),
        (["mention:nova#1"], "read", "bad_mark"),
        (["AAAA"], "read", "bad_mark"),
        (["ü"], "read", "bad_mark"),
        ([""], "read", "bad_mark"),
    ],
)
def test_bad_mark_is_refused(api_client: ApiClient, bursts: list[str], mark: str, code: str) -> None:
    assert_problem(api_client.put(MARKS, "u1", {"bursts": bursts, "mark": mark}), 400, code)


def test_marking_does_not_reveal_which_bursts_exist(api_client: ApiClient) -> None:
    api_client.mention()
    for foreign_id in (*ids(api_client, "nova"), *ids(api_client, "u2"), "A" * 40):
        assert_problem(api_client.put(MARKS, "u1", {"bursts": [foreign_id], "mark": "read"}), 400, "bad_mark")
    own = ids(api_client, "u1")
    api_client.backend.people.unfollow(UserId("u1"), Subject(Kind.MENTION, UserId("nova")))
    body = assert_problem(api_client.put(MARKS, "u1", {"bursts": own, "mark": "read"}), 404, "not_found")
    assert body["detail"] == "A burst is not in the user's inbox."


@pytest.mark.parametrize("path", [SEEN, MARKS])
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"token": 1, "bursts": 1}', b"\xff", b"[" * 10_000])
def test_malformed_body_is_refused(api_client: ApiClient, path: str, body: bytes) -> None:
    headers = {**api_client.bearer("u1"), "Content-Type": "application/json"}
    assert_problem(api_client.http.put(path, content=body, headers=headers), 400, "refused")


@pytest.mark.parametrize("path", [SEEN, MARKS])
def test_body_of_wrong_type_or_size_is_refused(api_client: ApiClient, path: str) -> None:
    headers = {**api_client.bearer("u1"), "Content-Type": "text/plain"}
    assert_problem(api_client.http.put(path, content=b"{}", headers=headers), 415, "wrong_content_type")
    assert_problem(api_client.put(path, "u1", {"token": "x" * 70_000}), 413, "too_large")


def test_unchanged_inbox_is_304(api_client: ApiClient) -> None:
    api_client.mention()
    first = api_client.inbox("u1")
    api_client.backend.clock.advance(timedelta(seconds=10))
    second = api_client.inbox("u1", {"If-None-Match": f'"other", {first.headers["etag"]}'})
    assert (second.status_code, second.content) == (304, b"")
    assert second.headers["etag"] == first.headers["etag"]
    assert int(second.headers["x-poll-interval"]) > 0


def test_changed_inbox_is_sent(api_client: ApiClient) -> None:
    api_client.mention()
    tag = api_client.inbox("u1").headers["etag"]
    api_client.put(MARKS, "u1", {"bursts": ids(api_client, "u1"), "mark": "read"})
    changed = api_client.inbox("u1", {"If-None-Match": tag})
    assert changed.status_code == 200
    assert [item["unread"] for item in changed.json()["items"]] == [False]


def test_etag_does_not_match_another_user_s_inbox(api_client: ApiClient) -> None:
    api_client.mention()
    assert api_client.inbox("u2", {"If-None-Match": api_client.inbox("u1").headers["etag"]}).status_code == 200


def test_page_without_the_store_is_partial_and_has_no_seen_token(api_client: ApiClient) -> None:
    api_client.mention()
    api_client.backend.port_errors.store = StoreUnavailable()
    page = api_client.inbox("u1").json()
    assert (page["partial"], page["seen"], page["badge"], page["next"]) == (True, None, None, None)


def test_uncountable_badge_is_503(api_client: ApiClient) -> None:
    api_client.backend.port_errors.store = StoreUnavailable()
    response = api_client.http.get("/v1/inbox/unread", headers=api_client.bearer("u1"))
    assert_problem(response, 503, "store_unavailable")
    assert response.headers["retry-after"] == "1"


def test_every_cache_tier_reports_hits_and_seconds(api_client: ApiClient) -> None:
    api_client.mention()
    for user in ("u1", "u1", "u2"):
        assert len(api_client.inbox(user).json()["items"]) == 1
    registry = api_client.backend.metrics.registry
    counts = {
        (tier, result): registry.get_sample_value("notifier_inbox_cache_total", {"tier": tier, "result": result})
        for tier in ("tokens", "pages", "viewers", "redis", "subjects", "bursts", "items")
        for result in ("hit", "miss")
    }
    assert counts == {
        ("tokens", "hit"): 1,
        ("tokens", "miss"): 2,
        ("pages", "hit"): 1,
        ("pages", "miss"): 2,
        ("viewers", "hit"): 1,
        ("viewers", "miss"): 2,
        ("redis", "hit"): 0,
        ("redis", "miss"): 2,
        ("subjects", "hit"): 1,
        ("subjects", "miss"): 3,
        ("bursts", "hit"): 2,
        ("bursts", "miss"): 0,
        ("items", "hit"): 1,
        ("items", "miss"): 1,
    }
    for tier in ("process", "redis", "store"):
        assert registry.get_sample_value("notifier_inbox_seconds_count", {"tier": tier})


def test_failing_store_is_read_once_per_request(api_client: ApiClient) -> None:
    """The fast path in front of the routes has already tried it."""
    api_client.backend.port_errors.store = StoreUnavailable()
    api_client.http.get("/v1/inbox/unread", headers=api_client.bearer("u1"))
    assert api_client.backend.metrics.registry.get_sample_value("notifier_inbox_feed_reads_total") == 1


def test_unknown_or_deleted_user_has_no_inbox(api_client: ApiClient) -> None:
    for user in ("nobody", "gone"):
        assert_problem(api_client.inbox(user), 404, "not_found")


def open_bursts(api_client: ApiClient, number: int) -> None:
    """Open this many bursts, each an item of its own."""
    for _ in range(number):
        api_client.mention()
        api_client.backend.clock.advance(timedelta(minutes=2))


def seqs(page: httpx.Response) -> list[int]:
    """Return the ordinals of the bursts. A mention makes two records: the followers' and nova's own."""
    return [int(item["tweet"].removeprefix("tmention-")) // 2 + 1 for item in page.json()["items"]]


def ids(api_client: ApiClient, user: str) -> list[str]:
    return [item["burst"] for item in api_client.inbox(user).json()["items"]]
