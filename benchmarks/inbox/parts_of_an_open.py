"""Measures the parts of one inbox open on the objects of a warm page."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from statistics import median
from time import process_time

import msgspec

from benchmarks.rounds import Figure, Spread, unjudged
from notifier.api.auth.authenticators import Authenticator, build_authenticator, issue_token
from notifier.api.auth.service_keys import InstallationKeys
from notifier.api.opaque_ids import OpaqueIds
from notifier.api.routes.inbox import BadgeBody, InboxBody
from notifier.api.schemas.inbox_items import item_body
from notifier.config import Settings
from notifier.devkit.fixture.world import SINCE, user
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.ids import BurstKey, Kind, Lane, Member, Subject, UserId
from notifier.domain.users.visibility import Marks, Viewer, is_visible
from notifier.flow.inbox.page import InboxView
from notifier.metrics import Metrics

PAGE, FOLLOWS = 20, 30
ROUNDS, ROUNDS_QUICK = 7, 3
PAGES_PER_ROUND = 300
"""Pages per round."""
VIEWER = UserId("u42")


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The objects of one warm page, and the function for each part of an open."""

    now: datetime
    keys: InstallationKeys
    authenticator: Authenticator

    def timed(self) -> Mapping[str, Callable[[], object]]:
        """Return the functions by part. Each is called once for a page of 20."""
        return {
            "auth": self._auth,
            "predicate": self._predicate,
            "body": self._body,
            "encrypt": self._encrypt,
            "encode": self._encode,
        }

    def _auth(self) -> object:
        """Verify a user's token without the event loop: the product's coroutine doesn't wait here."""
        asked = self.authenticator.user(self._authorization, self.now)
        try:
            asked.send(None)
        except StopIteration as ended:
            return ended.value
        raise AssertionError("the verification of the token waited")

    def _predicate(self) -> object:
        return [is_visible(burst, self.viewer, now=self.now) for burst in self.bursts]

    def _body(self) -> object:
        """Make the items: names, sentences and unread marks."""
        return [item_body(self.look.burst_item(burst), "", self.now) for burst in self.bursts]

    def _encrypt(self) -> object:
        return [self.opaque.id(VIEWER, burst.key) for burst in self.bursts]

    def _encode(self) -> object:
        return msgspec.json.encode(self.page)

    @cached_property
    def bursts(self) -> list[Burst]:
        return [_burst(number, self.now - timedelta(minutes=number)) for number in range(PAGE)]

    @cached_property
    def viewer(self) -> Viewer:
        follows = {Subject(Kind.MENTION, UserId(f"star{number}")): SINCE for number in range(FOLLOWS)}
        return Viewer(user=VIEWER, follows=follows, blocked=frozenset(), volume={}, marks=Marks())

    @cached_property
    def look(self) -> InboxView:
        return InboxView(viewer=self.viewer, member=Member(42), now=self.now)

    @cached_property
    def opaque(self) -> OpaqueIds:
        return OpaqueIds.of(self.keys)

    @cached_property
    def page(self) -> InboxBody:
        items = [
            item_body(self.look.burst_item(burst), self.opaque.id(VIEWER, burst.key), self.now) for burst in self.bursts
        ]
        badge = BadgeBody(count=PAGE, more=False)
        return InboxBody(items=items, next=None, seen=None, live=None, badge=badge, partial=False)

    @cached_property
    def _authorization(self) -> str:
        return f"Bearer {issue_token(self.keys, VIEWER, self.now, timedelta(hours=1))}"


def _burst(number: int, opened_at: datetime) -> Burst:
    return Burst(
        key=BurstKey(Subject(Kind.MENTION, UserId(f"star{number}")), 1),
        version=4,
        opened_at=opened_at,
        accepted_at=opened_at,
        lane=Lane.STANDARD,
        verdict=Verdict.ALL,
        mentioners=(user(number), user(number + 1), user(number + 2)),
        more_mentioners=False,
        count=4,
        first_of_day=True,
        restricted_to=None,
        tweet=f"tweet-{number}",
        text=f"have you seen @star{number}?",
    )


NAMES = tuple(f"inbox_part_us{{{part}}}" for part in ("auth", "predicate", "body", "encrypt", "encode"))


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    keys = InstallationKeys(secret=secrets.token_hex(32), service_key=secrets.token_hex(16))
    parts = Parts(
        now=datetime.now(SINCE.tzinfo),
        keys=keys,
        authenticator=build_authenticator(Settings(data=folder), keys, Metrics()),
    )
    tell(f"{', '.join(parts.timed())}, for a page of {PAGE}")
    rounds = ROUNDS_QUICK if quick else ROUNDS
    return [_figure(part, [_cost_us(work) for _ in range(1 + rounds)][1:]) for part, work in parts.timed().items()]


def _cost_us(work: Callable[[], object]) -> float:
    """Return the microseconds of CPU time per page."""
    began = process_time()
    for _ in range(PAGES_PER_ROUND):
        work()
    return (process_time() - began) / PAGES_PER_ROUND * 1e6


def _figure(part: str, costs: list[float]) -> Figure:
    name, detail = f"inbox_part_us{{{part}}}", f"CPU time for a page of {PAGE}, {FOLLOWS} followed subjects"
    return unjudged(name, Spread.of(costs, "us"), len(costs) * PAGES_PER_ROUND, detail, round(median(costs), 1))
