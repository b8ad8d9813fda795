"""Inbox check: opens sample users' inboxes over HTTP and compares them with the oracle."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from notifier.devkit.check.expected import ExpectedResult
from notifier.devkit.check.finding import Finding, agreement
from notifier.devkit.check.http_client import HttpClient, get_patiently, quoted
from notifier.devkit.fixture.users import FixtureUser
from notifier.domain.ids import UserId

LIMIT = 7
"""Items per page. A small number exercises the cursors."""
MAX_BADGE = 100
"""Upper limit of a badge."""
PAGES = 2_000
"""Page limit, more than any inbox of a check has. It ends a cursor that loops."""


Placed = tuple[str, datetime]
"""Subject and second of opening, which identify a burst in the API and in the store: API ids are opaque.

Two bursts may share them, so lists are compared in order and not as sets.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedInbox:
    """Inbox of one user as the API returned it."""

    items: Sequence[Mapping[str, object]]
    badge: tuple[int, bool]
    """Count, and whether there are more than the count."""
    seen: str | None
    trouble: str = ""

    @property
    def ids(self) -> list[str]:
        return [str(item["burst"]) for item in self.items]

    @property
    def places(self) -> list[Placed]:
        return [(str(item["subject"]), datetime.fromisoformat(str(item["opened_at"]))) for item in self.items]

    @property
    def unread(self) -> int:
        return sum(bool(item["unread"]) for item in self.items)

    def facts(self) -> list[tuple[object, ...]]:
        """Return the parts of the items that must not change between two reads."""
        return [(item["burst"], item["opened_at"], item["count"], item["unread"]) for item in self.items]


@dataclass(slots=True, kw_only=True)
class InboxCheck:
    """Opens the inboxes of sample users. `token` issues a user's token."""

    url: str
    token: Callable[[UserId], str]
    users: Sequence[FixtureUser]
    shown: dict[UserId, ObservedInbox] = field(default_factory=dict)

    def open_all(self) -> None:
        self.shown = {person.user: self._open(person) for person in self.users}

    def _open(self, person: FixtureUser) -> ObservedInbox:
        wire = HttpClient(url=self.url, bearer=self.token(person.user))
        items: list[Mapping[str, object]] = []
        path, seen, trouble = f"/v1/inbox?limit={LIMIT}", None, ""
        for _ in range(PAGES):
            page = get_patiently(wire, path)
            if page.status != 200 or page.body["partial"]:
                trouble = f"{path.partition('&')[0]} failed or was partial (status {page.status})"
                break
            items += page.body["items"]
            seen = seen or page.body["seen"]
            if page.body["next"] is None:
                break
            path = f"/v1/inbox?limit={LIMIT}&cursor={quoted(page.body['next'])}"
        badge = get_patiently(wire, "/v1/inbox/unread").body or {}
        wire.close()
        return ObservedInbox(
            items=items, badge=(badge.get("count", -1), badge.get("more", False)), seen=seen, trouble=trouble
        )

    def mark_some(self) -> list[str]:
        """Mark the first page of every third user as seen, then one item as unread and another as hidden.

        Returns the errors.
        """
        wrong = []
        for person in self.users[::3]:
            shown = self.shown[person.user]
            wire = HttpClient(url=self.url, bearer=self.token(person.user))
            ids = shown.ids
            steps: list[tuple[str, object]] = []
            steps += [("/v1/inbox/seen", {"token": shown.seen})] if shown.seen else []
            steps += [("/v1/inbox/marks", {"bursts": ids[:1], "mark": "unread"})] if ids else []
            steps += [("/v1/inbox/marks", {"bursts": ids[1:2], "mark": "hidden"})] if len(ids) > 1 else []
            answers = [(path, wire.put(path, body).status) for path, body in steps]
            wrong += [f"{person.user}: {path} failed (status {status})" for path, status in answers if status != 204]
            wire.close()
        return wrong

    def hidden(self, before: Mapping[UserId, ObservedInbox]) -> Mapping[UserId, slice]:
        """Return the positions in users' lists of the items that `mark_some` has hidden."""
        return {person.user: slice(1, 2) for person in self.users[::3] if len(before[person.user].items) > 1}

    def differences(self, truth: ExpectedResult, hidden: Mapping[UserId, slice]) -> Iterator[str]:
        places = {key: (str(key.subject), burst.opened_second) for key, burst in truth.bursts.items()}
        counts = truth.counts()
        for person in self.users:
            shown = self.shown[person.user]
            expected_keys = list(truth.inbox(person))
            del expected_keys[hidden.get(person.user, slice(0))]
            expected = [places[key] for key in expected_keys]
            if shown.trouble or shown.places != expected:
                lost, surplus = len(set(expected) - set(shown.places)), len(set(shown.places) - set(expected))
                order = "" if lost or surplus else ", in another order or repeated"
                yield f"{person.user} ({person.kind}): {lost} missing, {surplus} extra{order} {shown.trouble}"
            elif any(item["count"] != counts[key] for item, key in zip(shown.items, expected_keys, strict=True)):
                yield f"{person.user} ({person.kind}): wrong mention count"

    def duplicates(self) -> list[str]:
        return [
            f"{user} sees {len(shown.ids) - len(set(shown.ids))} items more than once"
            for user, shown in self.shown.items()
            if len(set(shown.ids)) < len(shown.ids)
        ]

    def badges(self) -> list[str]:
        wrong = []
        for user, shown in self.shown.items():
            expected = (min(shown.unread, MAX_BADGE), shown.unread > MAX_BADGE)
            if shown.badge != expected:
                wrong.append(f"{user}: badge {shown.badge}, list {expected}")
        return wrong

    def dormant_by_pull(self, truth: ExpectedResult) -> Finding:
        """Check that dormant followers, who get no rows for celebrities, still see the complete list."""
        dormant = [person for person in self.users if person.kind in ("dormant", "idle vip")]
        dormant_inboxes = InboxCheck(url=self.url, token=self.token, users=dormant, shown=self.shown)
        expected_lists = sum(bool(truth.inbox(person)) for person in dormant)
        return agreement("dormant_by_pull", dormant_inboxes.differences(truth, {}), n=expected_lists)
