"""Measures the parts of one inbox open on the objects of a warm page."""

import asyncio
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import msgspec

from benchmarks.costs_and_figures import Figure, Spread, unjudged
from notifier.adapters.clock_and_nonces import SystemClock
from notifier.api.auth.authenticators import Authenticator, build_authenticator, issue_token
from notifier.api.auth.service_and_installation_keys import InstallationKeys
from notifier.api.opaque_ids import OpaqueIds
from notifier.api.routes.inbox import BadgeBody, InboxBody
from notifier.api.schemas.inbox_items import item_body
from notifier.config import Settings
from notifier.devkit.fixture.world import SINCE, user
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.moderation import Verdict
from notifier.domain.ids import BurstKey, Kind, Lane, Member, Subject, UserId
from notifier.domain.users.visibility import Marks, Viewer, is_visible
from notifier.flow.inbox.cached_burst_walk import CachedWalk
from notifier.flow.inbox.newest_bursts_and_change_times import OLDEST_POSITION, SubjectPositions
from notifier.flow.inbox.page import InboxView
from notifier.flow.inbox.shared_loads import DirectLoads
from notifier.flow.inbox.subject_cache import SubjectCache
from notifier.flow.inbox.viewer_and_page_cache import viewer_scopes
from notifier.flow.inbox.viewer_facts_invalidation_and_check import SharedVersionLookups
from notifier.metrics import Metrics
from notifier.ports.inbox_cache_freshness import Scope, VersionLookup

PAGE, FOLLOWS = 20, 30
ROUNDS, ROUNDS_QUICK = 7, 3
PAGES_PER_ROUND = 300
"""Pages per round."""
SHARING = 16
"""Pages that share a look-up: one on each connection of the load."""
PAGES_BY_PART = {"look_up": SHARING}
"""Pages for which one call of a part's function works, if not one."""
VIEWER = UserId("u42")


class Answered:
    """Look-ups that are answered at once."""

    async def look_up(
        self, scopes: Collection[Scope], *, may_wait: bool, users: Collection[UserId] = ()
    ) -> VersionLookup | None:
        return VersionLookup(versions=dict.fromkeys(scopes, "1"), published=())


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The objects of one warm page, and the function for each part of an open."""

    now: datetime
    keys: InstallationKeys
    authenticator: Authenticator

    def timed(self) -> Mapping[str, Callable[[], object]]:
        """Return the functions by part."""
        return {
            "auth": self._auth,
            "look_up": self._look_up,
            "merge": self._merge,
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

    def _look_up(self) -> object:
        """Prove the facts of pages that share a look-up, whose round trip is left out."""
        return self.loop.run_until_complete(self._look_up_together())

    async def _look_up_together(self) -> object:
        lookups = SharedVersionLookups(lookups=Answered(), max_wait=timedelta(seconds=1))
        scopes = viewer_scopes(Member(42))
        return await asyncio.gather(*(lookups.look_up(scopes, may_wait=False) for _ in range(SHARING)))

    def _merge(self) -> object:
        """Find the newest bursts of the followed subjects in memory."""
        cache = self.subject_cache
        walk = CachedWalk(
            cache=cache,
            lists=[*cache.cached_lists.values()],
            subjects=[*cache.cached_lists],
            visible_from=self.viewer.follows,
            authors=(),
            after=None,
        )
        first_run = walk.step()
        try:
            first_run.send(None)
        except StopIteration as ended:
            return ended.value
        raise AssertionError("the walk read the store")

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
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.new_event_loop()

    @cached_property
    def subject_cache(self) -> SubjectCache:
        """A cache that has the bursts and the lists of all followed subjects, so it reads no port."""
        unread: Any = None
        cache = SubjectCache(
            timeline=unread,
            pull=unread,
            clock=SystemClock(),
            metrics=Metrics(),
            burst_loads=DirectLoads(),
            list_loads=DirectLoads(),
            extension_loads=DirectLoads(),
            max_bytes=100_000_000,
        )
        for subject in self.viewer.follows:
            cache.cached_lists[subject] = SubjectPositions(subject=subject, complete_to=OLDEST_POSITION, positions=[])
        for burst in self.bursts:
            cache.cached_lists[burst.key.subject].put(burst)
            cache.bursts[burst.key] = burst
        return cache

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


PARTS = ("auth", "look_up", "merge", "predicate", "body", "encrypt", "encode")
NAMES = tuple(f"inbox_part_us{{{part}}}" for part in PARTS)


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    keys = InstallationKeys(secret=secrets.token_hex(32), service_key=secrets.token_hex(16))
    parts = Parts(
        now=datetime.now(SINCE.tzinfo),
        keys=keys,
        authenticator=build_authenticator(Settings(data=folder), keys, Metrics()),
    )
    tell(f"{', '.join(parts.timed())}, for a page of {PAGE}")
    rounds = ROUNDS_QUICK if quick else ROUNDS
    try:
        return [
            _figure(part, [_cost_us(work) / PAGES_BY_PART.get(part, 1) for _ in range(1 + rounds)][1:])
            for part, work in parts.timed().items()
        ]
    finally:
        parts.loop.close()


def _cost_us(work: Callable[[], object]) -> float:
    """Return the microseconds of CPU time per page."""
    began = process_time()
    for _ in range(PAGES_PER_ROUND):
        work()
    return (process_time() - began) / PAGES_PER_ROUND * 1e6


def _figure(part: str, costs: list[float]) -> Figure:
    name, detail = f"inbox_part_us{{{part}}}", f"CPU time for a page of {PAGE}, {FOLLOWS} followed subjects"
    return unjudged(name, Spread.of(costs, "us"), len(costs) * PAGES_PER_ROUND, detail, round(median(costs), 1))
