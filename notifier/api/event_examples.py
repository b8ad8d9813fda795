"""One event of every type, as services write them: the description of the API shows them, and so does docs/http.md."""

from collections.abc import Mapping
from typing import Any

from notifier.domain.upstream.validation import (
    APPROVED_TYPE,
    BLOCKED_TYPE,
    CHANGED_TYPE,
    DELETED_TYPE,
    EDITED_TYPE,
    ERASED_TYPE,
    EVENT_TYPE,
    FOLLOWED_TYPE,
    PROTECTED_TYPE,
    SEEN_TYPE,
    UNBLOCKED_TYPE,
    UNFOLLOWED_TYPE,
)

TWEETS, GRAPH, ACCOUNTS, LOGINS = "//tweets.example", "//graph.example", "//accounts.example", "//logins.example"


def _event(type: str, source: str, id: str, data: Mapping[str, Any], time: str = "12:00:00") -> Mapping[str, Any]:
    return {
        "specversion": "1.0",
        "type": type,
        "source": source,
        "id": id,
        "time": f"2026-01-05T{time}Z",
        "data": data,
    }


_TWEET = {"tweet": "t1843", "author": "ada"}
_EDIT = {**_TWEET, "mentions": ["nova"], "text": "@nova hello again", "sequence": 1}
_FOLLOW = {"follower": "ada", "followed": "nova", "sequence": 3}
_BLOCK = {"blocker": "ada", "blocked": "eve", "sequence": 3}
_ADA = {"user": "ada"}

EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    example["type"]: example
    for example in (
        _event(EVENT_TYPE, TWEETS, "1843", {**_TWEET, "mentions": ["nova"], "text": "@nova hello", "protected": False}),
        _event(DELETED_TYPE, TWEETS, "1902", _TWEET, "12:05:00"),
        _event(EDITED_TYPE, TWEETS, "1901", _EDIT, "12:04:00"),
        _event(FOLLOWED_TYPE, GRAPH, "77120", _FOLLOW),
        _event(APPROVED_TYPE, GRAPH, "77122", _FOLLOW),
        _event(UNFOLLOWED_TYPE, GRAPH, "77123", {**_FOLLOW, "sequence": 4}),
        _event(BLOCKED_TYPE, GRAPH, "77121", _BLOCK),
        _event(UNBLOCKED_TYPE, GRAPH, "77124", {**_BLOCK, "sequence": 4}),
        _event(
            CHANGED_TYPE, ACCOUNTS, "5120", {**_ADA, "sequence": 4, "verified": True, "vip": True, "deleted": False}
        ),
        _event(PROTECTED_TYPE, ACCOUNTS, "5121", _ADA),
        _event(ERASED_TYPE, ACCOUNTS, "5122", _ADA),
        _event(SEEN_TYPE, LOGINS, "90412", _ADA),
    )
}
"""By type."""
