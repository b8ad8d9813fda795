"""The cases of opening an inbox: requests, users, and what they are compared with."""

from collections.abc import Sequence
from dataclasses import dataclass

CONNECTIONS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    name: str
    """Name of the case, as part of the names of its figures."""
    requests: str
    """Name of the file of requests."""
    server: str = "product"
    status: int = 200
    """Expected status of every response."""
    against: str = "bare_page"
    limits: tuple[float | None, float | None] = (None, None)
    """Least ratio against the bare handler, in the embedded and the cluster profile. None means reported, not
    judged."""

    def limit(self, profile: str) -> float | None:
        return self.limits[profile == "cluster"]


BARE_PAGE = Case(name="bare_page", requests="bare_page", server="baseline")
BARE_UNREAD = Case(name="bare_unread", requests="bare_unread", server="baseline")
BY_HAND = Case(name="redis_by_hand", requests="redis_by_hand", server="baseline")
FEED = Case(name="stream_framework", requests="stream_framework", server="stream_framework")

WARM = Case(name="warm", requests="warm", limits=(0.35, 0.3))
NOT_MODIFIED = Case(name="not_modified", requests="not_modified", status=304, limits=(0.5, None))
UNREAD = Case(name="unread", requests="unread", against="bare_unread", limits=(0.45, None))
NEWS = Case(name="news", requests="warm")
FIRST = Case(name="first", requests="vip")

PAGES: Sequence[Case] = (
    WARM,
    NOT_MODIFIED,
    UNREAD,
    Case(name="second_page", requests="second_page"),
    Case(name="deep_page", requests="deep_page"),
    Case(name="users_60", requests="users_60"),
    Case(name="follows_1", requests="one"),
    Case(name="follows_300", requests="many"),
    Case(name="follows_3000", requests="most"),
)
"""Measured in the same rounds. `users_60` is comparable with figures of earlier benchmarks."""
