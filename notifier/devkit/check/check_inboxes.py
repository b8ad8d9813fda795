"""Compares sample users' inboxes with the oracle, and observes inboxes during outages."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from notifier.devkit.check.expected_result import ExpectedResult
from notifier.devkit.check.finding_and_quantiles import Finding, no_errors
from notifier.devkit.check.http_client import HttpClient, HttpResponse, get_patiently, url_quote
from notifier.devkit.check.notifier_and_engine_processes import Instance
from notifier.devkit.fixture.sample_users_and_devices import FixtureUser
from notifier.domain.ids import UserId

ITEMS_PER_PAGE = 7
"""Items per page: so few that the check must follow cursors."""
MAX_BADGE = 100
"""Largest count of a badge. With more unread items, the badge has this count and `more`."""
MAX_PAGES = 2_000
"""Limit of pages per inbox, in case a cursor loops."""


BurstPosition = tuple[str, datetime]
"""Subject and opening second of a burst. They relate API items to stored bursts, because API ids are opaque.

Two bursts may have the same position, so equal sets of positions do not prove equal lists.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedInbox:
    """Inbox of one user as the API returned it."""

    items: Sequence[Mapping[str, object]]
    badge: tuple[int, bool]
    """Count, and whether there are more unread items than this count."""
    seen_token: str | None
    """Token of the first page."""
    error: str = ""

    @property
    def ids(self) -> list[str]:
        return [str(item["burst"]) for item in self.items]

    @property
    def positions(self) -> list[BurstPosition]:
        return [(str(item["subject"]), datetime.fromisoformat(str(item["opened_at"]))) for item in self.items]

    @property
    def unread_count(self) -> int:
        return sum(bool(item["unread"]) for item in self.items)

    def stable_parts(self) -> list[tuple[object, ...]]:
        """Return the parts of the items that a restart must not change."""
        return [(item["burst"], item["opened_at"], item["count"], item["unread"]) for item in self.items]


@dataclass(slots=True, kw_only=True)
class InboxCheck:
    """Opens the inboxes of sample users, and compares them with the oracle."""

    url: str
    token: Callable[[UserId], str]
    """Issues the token of a user."""
    users: Sequence[FixtureUser]
    observed: dict[UserId, ObservedInbox] = field(default_factory=dict)
    """Inboxes that `open_all` read last."""

    def open_all(self) -> None:
        """Read all pages and the badge of each user."""
        self.observed = {fixture_user.user: self._open(fixture_user) for fixture_user in self.users}

    def _open(self, fixture_user: FixtureUser) -> ObservedInbox:
        client = HttpClient(url=self.url, bearer=self.token(fixture_user.user))
        items: list[Mapping[str, object]] = []
        path, seen_token, error = f"/v1/inbox?limit={ITEMS_PER_PAGE}", None, ""
        for _ in range(MAX_PAGES):
            page = get_patiently(client, path)
            if page.status != 200 or page.body["partial"]:
                error = f"{path.partition('&')[0]} failed or was partial (status {page.status})"
                break
            items += page.body["items"]
            seen_token = seen_token or page.body["seen"]
            if page.body["next"] is None:
                break
            path = f"/v1/inbox?limit={ITEMS_PER_PAGE}&cursor={url_quote(page.body['next'])}"
        badge = get_patiently(client, "/v1/inbox/unread").body or {}
        client.close()
        return ObservedInbox(
            items=items, badge=(badge.get("count", -1), badge.get("more", False)), seen_token=seen_token, error=error
        )

    def mark_some(self) -> list[str]:
        """Mark the first page of every third user as seen, the first item as unread, and the second as hidden.

        Returns the errors.
        """
        wrong = []
        for fixture_user in self.users[::3]:
            inbox = self.observed[fixture_user.user]
            client = HttpClient(url=self.url, bearer=self.token(fixture_user.user))
            ids = inbox.ids
            steps: list[tuple[str, object]] = []
            steps += [("/v1/inbox/seen", {"token": inbox.seen_token})] if inbox.seen_token else []
            steps += [("/v1/inbox/marks", {"bursts": ids[:1], "mark": "unread"})] if ids else []
            steps += [("/v1/inbox/marks", {"bursts": ids[1:2], "mark": "hidden"})] if len(ids) > 1 else []
            results = [(path, client.put(path, body).status) for path, body in steps]
            wrong += [
                f"{fixture_user.user}: {path} failed (status {status})" for path, status in results if status != 204
            ]
            client.close()
        return wrong

    def hidden(self, before: Mapping[UserId, ObservedInbox]) -> Mapping[UserId, slice]:
        """Return the slice of the list that `mark_some` has hidden, by user."""
        return {
            fixture_user.user: slice(1, 2)
            for fixture_user in self.users[::3]
            if len(before[fixture_user.user].items) > 1
        }

    def differences(self, truth: ExpectedResult, hidden: Mapping[UserId, slice]) -> Iterator[str]:
        positions = {key: (str(key.subject), burst.opened_second) for key, burst in truth.bursts.items()}
        counts = truth.mention_counts()
        for fixture_user in self.users:
            inbox = self.observed[fixture_user.user]
            expected_keys = list(truth.inbox(fixture_user))
            del expected_keys[hidden.get(fixture_user.user, slice(0))]
            expected = [positions[key] for key in expected_keys]
            if inbox.error or inbox.positions != expected:
                missing, extra = len(set(expected) - set(inbox.positions)), len(set(inbox.positions) - set(expected))
                order = "" if missing or extra else ", in another order or repeated"
                difference = f"{missing} missing, {extra} extra{order} {inbox.error}"
                yield f"{fixture_user.user} ({fixture_user.user_class}): {difference}"
            elif any(item["count"] != counts[key] for item, key in zip(inbox.items, expected_keys, strict=True)):
                yield f"{fixture_user.user} ({fixture_user.user_class}): wrong mention count"

    def duplicates(self) -> list[str]:
        return [
            f"{user} sees {len(inbox.ids) - len(set(inbox.ids))} items more than once"
            for user, inbox in self.observed.items()
            if len(set(inbox.ids)) < len(inbox.ids)
        ]

    def wrong_badges(self) -> list[str]:
        wrong = []
        for user, inbox in self.observed.items():
            expected = (min(inbox.unread_count, MAX_BADGE), inbox.unread_count > MAX_BADGE)
            if inbox.badge != expected:
                wrong.append(f"{user}: badge {inbox.badge}, list {expected}")
        return wrong

    def dormant_by_pull(self, truth: ExpectedResult) -> Finding:
        """Check that dormant followers, who get no rows in the celebrity lane, see the complete list."""
        dormant = [fixture_user for fixture_user in self.users if fixture_user.user_class in ("dormant", "idle vip")]
        dormant_inboxes = InboxCheck(url=self.url, token=self.token, users=dormant, observed=self.observed)
        expected_lists = sum(bool(truth.inbox(fixture_user)) for fixture_user in dormant)
        return no_errors("dormant_by_pull", dormant_inboxes.differences(truth, {}), n=expected_lists)


# Observer: opens inboxes during a store outage and records the responses.

MAX_RESPONSE_SECONDS = 5.0
"""Time limit of a response. The inbox's own deadlines are shorter."""
NO_RESPONSE = "no response"


@dataclass(slots=True, kw_only=True)
class InboxObserver:
    instance: Instance
    token: Callable[[UserId], str]
    users: Sequence[FixtureUser]
    api_is_killed: bool = False
    """Whether the API is killed as well, so that some requests get no response."""
    responses: list[HttpResponse] = field(default_factory=list)

    def open_all(self) -> None:
        """Open every inbox once, so that the service remembers the last known pages."""
        for fixture_user in self.users:
            self._request(fixture_user)

    def __call__(self) -> None:
        """Open the inbox of the next user and record the response."""
        self.responses.append(self._request(self.users[len(self.responses) % len(self.users)]))

    def _request(self, fixture_user: FixtureUser) -> HttpResponse:
        client = HttpClient(url=self.instance.url, bearer=self.token(fixture_user.user))
        try:
            return client.get("/v1/inbox")
        finally:
            client.close()

    def finding(self) -> Finding:
        """Check that each response is of an allowed kind, and in time."""
        outcomes = [_outcome_name(response) for response in self.responses]
        longest = max((response.seconds for response in self.responses), default=0.0)
        allowed = ("whole", "partial", "503", *([NO_RESPONSE] if self.api_is_killed else ()))
        wrong = [outcome for outcome in outcomes if outcome not in allowed]
        if longest > MAX_RESPONSE_SECONDS:
            wrong.append(f"one response took {longest:.1f} s")
        summary = ", ".join(f"{outcomes.count(outcome)} {outcome}" for outcome in sorted(set(outcomes)))
        detail = "; ".join([*wrong[:3], f"{summary}; the slowest response took {longest:.1f} s"])
        result = no_errors("inboxes_in_outage", wrong, n=len(outcomes))
        return replace(result, detail=detail)


def _outcome_name(response: HttpResponse) -> str:
    if response.status == 200:
        return "partial" if response.body["partial"] else "whole"
    return str(response.status) if response.status else NO_RESPONSE
