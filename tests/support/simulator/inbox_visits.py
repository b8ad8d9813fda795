"""Inbox visits at any moment, with checks of what a page may and must show."""

from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

from notifier.domain.errors import NotFound, Unavailable
from notifier.domain.ids import BurstKey, UserId
from notifier.domain.users.visibility import Mark
from notifier.flow.inbox.inbox import Inbox
from notifier.flow.inbox.page import Badge, BurstItem, Page
from tests.support.oracle import InboxMarks, Key, Oracle
from tests.support.simulator.oracle_input_reader import ListBounds, StateReader, key_of
from tests.support.simulator.script import Opened

T = TypeVar("T")


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine to its end. Memory ports never suspend it, and a greenlet switches by itself."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("an in-memory port suspended")


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """All pages of an inbox, and the badge that came with the first."""

    pages: Sequence[Page]
    badge: Badge | None

    @property
    def partial(self) -> bool:
        return any(page.partial for page in self.pages)

    @property
    def shown(self) -> list[Key]:
        return [key_of(item.entry.key) for page in self.pages for item in page.items]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedToken:
    """A submitted token and the bursts it may cover: shown by its walk, published before it, or refused by Redis."""

    person: str
    as_of: datetime
    newer: frozenset[Key]
    excused: frozenset[Key]


@dataclass(slots=True)
class Visits:
    inboxes: Sequence[Inbox]
    """Inboxes of several API processes; requests go to them in turn, as behind a load balancer."""
    state_reader: StateReader
    wait: Callable[[float], None]
    marked: dict[str, InboxMarks] = field(default_factory=dict)
    tokens: list[SubmittedToken] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    shown: dict[str, set[Key]] = field(default_factory=dict)
    """Bursts that complete pages have shown, by user."""
    count: int = 0
    requests: int = 0

    def visit(self, opened: Opened) -> None:
        before = self._look(opened.person)
        walk = self._walk(opened)
        after = self._look(opened.person)
        if walk is None:
            return
        self.count += 1
        marked = self.marked.get(opened.person, InboxMarks())
        shown = self.shown.setdefault(opened.person, set())
        hidden = {key for key, mark in marked.marks.items() if mark == Mark.HIDDEN}
        self.wrong += [
            f"{opened.person}'s inbox: {text}" for text in wrong(walk, before, after, marked, shown - hidden)
        ]
        if not walk.partial:
            shown.update(walk.shown)
        first = walk.pages[0]
        if opened.see and first.seen is not None and not walk.partial:
            self._see(opened.person, walk, before.published | before.refused | after.refused | set(marked.marks))
        if opened.mark and first.items:
            self._mark(opened.person, first.items[0].entry.key, opened.mark)

    def hidden_by_tokens(self) -> Iterator[str]:
        """Yield bursts that a token covers although no page can have shown them when the token was made."""
        oracle, now = self.state_reader.oracle(), self.state_reader.state.clock.now()
        for token in self.tokens:
            for key, burst in oracle.bursts.items():
                covered = burst.opened_at <= token.as_of or key in token.newer
                sees = oracle.visible(oracle.people[token.person], burst, InboxMarks(), now)
                if covered and sees and key not in token.excused:
                    yield f"{token.person} never saw {key}, and a token covers it"

    def _walk(self, opened: Opened) -> Walk | None:
        """Walk through all pages; None if the inbox is unavailable."""
        user, pages, cursor = UserId(opened.person), list[Page](), None
        try:
            first = run_sync(self._next().open(user, limit=opened.limit))
            pages.append(first.page)
            while (cursor := pages[-1].next) is not None:
                pages.append(run_sync(self._next().page(user, after=cursor, limit=opened.limit)))
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
        self.tokens.append(
            SubmittedToken(person=person, as_of=token.as_of, newer=newer, excused=excused | set(walk.shown))
        )
        known = self.marked.get(person, InboxMarks())
        self.marked[person] = replace(known, seen=(*known.seen, (token.as_of, newer)))

    def _mark(self, person: str, burst: BurstKey, mark: str) -> None:
        try:
            self._insist(lambda: self._next().mark(UserId(person), [burst], Mark(mark)))
        except NotFound:  # the user's follows have changed meanwhile
            return
        known = self.marked.get(person, InboxMarks())
        self.marked[person] = replace(known, marks={**known.marks, key_of(burst): mark})

    def _next(self) -> Inbox:
        self.requests += 1
        return self.inboxes[self.requests % len(self.inboxes)]

    def _insist(self, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                return run_sync(call())
            except Unavailable:
                self.wait(0.5)

    def _look(self, person: str) -> ListBounds:
        return self.state_reader.look(person, self.marked.get(person, InboxMarks()))


def _unread(oracle: Oracle, keys: Collection[Key], marked: InboxMarks) -> int:
    known = [key for key in keys if key in oracle.bursts or key[0] == "digest"]
    return sum(oracle.unread(oracle.entry_of(key), marked) for key in known)


def wrong(
    walk: Walk, before: ListBounds, after: ListBounds, marked: InboxMarks, shown_before: Collection[Key]
) -> Iterator[str]:
    """Yield what the predicate denied all the time between the two looks, and what is missing.

    A partial page may repeat what was shown before, because the user learns nothing new from it.
    """
    moving = before.moving | after.moving
    shown = walk.shown
    for page in walk.pages:
        opening_times = [item.entry.opened_at for item in page.items]
        if opening_times != sorted(opening_times, reverse=True):
            yield "a page isn't newest first"
    for key in sorted({key for key in shown if shown.count(key) > 1} - moving):
        yield f"{key} is there twice"
    if before.changes != after.changes:
        return
    allowed = before.may | after.may | moving
    required = (before.must & after.must & before.published) - moving - before.refused - after.refused
    if moving:  # a burst that is stamped again may move to another day
        allowed |= {key for key in shown if key[0] == "digest"}
    for key in sorted(set(shown) - allowed - (set(shown_before) if walk.partial else set())):
        yield f"{key} is shown, which the predicate denies"
    if walk.partial:
        return
    yield from _left(walk, before.lenient, after.lenient, moving)
    for key in sorted(required - set(shown)):
        yield f"{key} is missing, which was published before"
    if walk.badge is not None:
        least, most = (_unread(after.oracle, keys, marked) for keys in (required, allowed))
        if not least <= walk.badge.count <= most:
            yield f"the badge says {walk.badge.count}, and {least} to {most} are unread"


def _left(walk: Walk, before: Oracle, after: Oracle, moving: Collection[Key]) -> Iterator[str]:
    """Yield bursts on the page that show content which was retracted before the page was opened."""
    items = [item for page in walk.pages for item in page.items if isinstance(item, BurstItem)]
    for burst, names in ((item.burst, item.mentioners) for item in items):
        if (key := key_of(burst.key)) in moving or not after.retractions:
            continue
        visible = {
            id for oracle in (before, after) if key in oracle.bursts for id in oracle.visible_tweets(oracle.bursts[key])
        }
        if burst.tweet not in visible:
            yield f"{key} shows {burst.tweet}, which was retracted"
        if unnamed := set(names) - {after.tweets[id].author for id in visible}:
            yield f"{key} names {sorted(unnamed)}, who have no mention in it"
