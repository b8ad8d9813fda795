"""Visits: people who open their tab at any moment, and what a page may and must show them then."""

from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

from notifier.domain.errors import NotFound, Unavailable
from notifier.domain.ids import BurstKey, UserId
from notifier.domain.users.visibility import Mark
from notifier.flow.inbox.inbox import Inbox
from notifier.flow.inbox.page import Badge, Item, Page
from tests.support.oracle import Key, Marked, Oracle
from tests.support.simulator.script import Opened
from tests.support.simulator.snapshot import Look, Sight, key_of

T = TypeVar("T")


def driven(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs it to its end: nothing in memory ever suspends, and a greenlet gives way by itself."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        found: T = stop.value
        return found
    raise AssertionError("an in-memory port suspended")


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """All pages, one after another, and the badge that came with the first."""

    pages: Sequence[Page]
    badge: Badge | None

    @property
    def partial(self) -> bool:
        return any(page.partial for page in self.pages)

    @property
    def shown(self) -> list[Key]:
        return [key_of(item.entry.key) for page in self.pages for item in page.items]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedIn:
    """A token, and the bursts that it may cover: shown by its walk, published before it, or refused by Redis."""

    person: str
    as_of: datetime
    newer: frozenset[Key]
    excused: frozenset[Key]


@dataclass(slots=True)
class Visits:
    inboxes: Sequence[Inbox]
    """Of several API processes: each request goes to the next one, as behind a balancer."""
    sight: Sight
    wait: Callable[[float], None]
    marked: dict[str, Marked] = field(default_factory=dict)
    tokens: list[HandedIn] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    shown: dict[str, set[Key]] = field(default_factory=dict)
    """Whom the tab has shown what, on whole pages."""
    n: int = 0
    requests: int = 0

    def visit(self, opened: Opened) -> None:
        before = self._look(opened.person)
        walk = self._walk(opened)
        after = self._look(opened.person)
        if walk is None:
            return
        self.n += 1
        marked = self.marked.get(opened.person, Marked())
        shown = self.shown.setdefault(opened.person, set())
        hidden = {key for key, mark in marked.marks.items() if mark == Mark.HIDDEN}
        self.wrong += [f"{opened.person}'s tab: {text}" for text in wrong(walk, before, after, marked, shown - hidden)]
        if not walk.partial:
            shown.update(walk.shown)
        first = walk.pages[0]
        if opened.see and first.seen is not None and not walk.partial:
            self._see(opened.person, walk, before.published | before.refused | after.refused | set(marked.marks))
        if opened.mark and first.items:
            self._mark(opened.person, first.items[0].entry.key, opened.mark)

    def swallowed(self) -> Iterator[str]:
        """Bursts that no page can have shown when the token was made, and that it covers all the same."""
        oracle, now = self.sight.oracle(), self.sight.ground.clock.now()
        for token in self.tokens:
            for key, burst in oracle.bursts.items():
                covered = burst.opened_at <= token.as_of or key in token.newer
                sees = oracle.visible(oracle.people[token.person], burst, Marked(), now)
                if covered and sees and key not in token.excused:
                    yield f"{token.person} never saw {key}, and a token covers it"

    def _walk(self, opened: Opened) -> Walk | None:
        """None when the store doesn't answer."""
        user, pages, place = UserId(opened.person), list[Page](), None
        try:
            first = driven(self._next().open(user, limit=opened.limit))
            pages.append(first.page)
            while (place := pages[-1].next) is not None:
                pages.append(driven(self._next().page(user, after=place, limit=opened.limit)))
        except Unavailable:
            return None
        return Walk(pages=pages, badge=first.badge)

    def _see(self, person: str, walk: Walk, excused: frozenset[Key]) -> None:
        token = walk.pages[0].seen
        assert token is not None
        newer = frozenset(map(key_of, token.newer))
        for item in walk.pages[0].items:
            if item.entry.opened_at > token.as_of and key_of(item.entry.key) not in newer:
                self.wrong.append(f"{person}'s token leaves out {item.entry.key}, which its page shows")
        self._insist(lambda: self._next().see(UserId(person), token))
        self.tokens.append(HandedIn(person=person, as_of=token.as_of, newer=newer, excused=excused | set(walk.shown)))
        known = self.marked.get(person, Marked())
        self.marked[person] = replace(known, seen=(*known.seen, (token.as_of, newer)))

    def _mark(self, person: str, burst: BurstKey, mark: str) -> None:
        try:
            self._insist(lambda: self._next().mark(UserId(person), [burst], Mark(mark)))
        except NotFound:  # what the person follows has changed meanwhile
            return
        known = self.marked.get(person, Marked())
        self.marked[person] = replace(known, marks={**known.marks, key_of(burst): mark})

    def _next(self) -> Inbox:
        self.requests += 1
        return self.inboxes[self.requests % len(self.inboxes)]

    def _insist(self, doing: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                return driven(doing())
            except Unavailable:
                self.wait(0.5)

    def _look(self, person: str) -> Look:
        return self.sight.look(person, self.marked.get(person, Marked()))


def _unread(oracle: Oracle, keys: Collection[Key], marked: Marked) -> int:
    there = [key for key in keys if key in oracle.bursts or key[0] == "digest"]
    return sum(oracle.unread(oracle.placed(key), marked) for key in there)


def wrong(walk: Walk, before: Look, after: Look, marked: Marked, shown_before: Collection[Key]) -> Iterator[str]:
    """Where the list or the badge isn't what the predicate says, for whatever moment between the two looks.

    A partial page may be what the person was shown before: then what was denied meanwhile is no news to anybody.
    """
    moving = before.moving | after.moving
    shown = walk.shown
    for page in walk.pages:
        times = [item.entry.opened_at for item in page.items]
        if times != sorted(times, reverse=True):
            yield "a page isn't newest first"
    for key in sorted({key for key in shown if shown.count(key) > 1} - moving):
        yield f"{key} is there twice"
    if before.changes != after.changes:
        return
    may = before.may | after.may | moving
    must = (before.must & after.must & before.published) - moving - before.refused - after.refused
    if moving:  # what is stamped anew may be another day's
        may |= {key for key in shown if key[0] == "digest"}
    for key in sorted(set(shown) - may - (set(shown_before) if walk.partial else set())):
        yield f"{key} is shown, which the predicate denies"
    if walk.partial:
        return
    yield from _left(walk, before.lenient, after.lenient, moving)
    for key in sorted(must - set(shown)):
        yield f"{key} is missing, which was published before"
    if walk.badge is not None:
        least, most = (_unread(after.oracle, keys, marked) for keys in (must, may))
        if not least <= walk.badge.count <= most:
            yield f"the badge says {walk.badge.count}, and {least} to {most} are unread"


def _left(walk: Walk, before: Oracle, after: Oracle, moving: Collection[Key]) -> Iterator[str]:
    """Where the page says of a burst what was taken back before it was opened."""
    items = [item for page in walk.pages for item in page.items if isinstance(item, Item)]
    for burst, names in ((item.burst, item.names) for item in items):
        if (key := key_of(burst.key)) in moving or not after.words:
            continue
        left = {id for oracle in (before, after) if key in oracle.bursts for id in oracle.left(oracle.bursts[key])}
        if burst.tweet not in left:
            yield f"{key} shows {burst.tweet}, which was taken back"
        if unnamed := set(names) - {after.tweets[id].author for id in left}:
            yield f"{key} names {sorted(unnamed)}, who have nothing in it"
