"""An account crosses the celebrity threshold while mentions wait in both lanes, on any ports."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, TypeVar

from notifier import topics
from notifier.config import Settings
from notifier.consumer_loop import StreamProcessor, build_stream_processor
from notifier.domain.errors import StoreUnavailable
from notifier.domain.ids import BurstKey, Kind, Lane, Subject, UserId
from notifier.domain.upstream.validation import FOLLOWED_TYPE, MENTIONED_TYPE, UNFOLLOWED_TYPE
from notifier.flow.intake.gateway import IntakeStatus
from notifier.flow.intake.mention_router import Router
from notifier.metrics import Metrics
from notifier.ports.all_ports import Ports, ReadPorts
from notifier.profiles import Profile
from notifier.wiring.delivery import build_reconciler, build_slice_worker
from notifier.wiring.inbox import build_uncached_inbox
from notifier.wiring.intake import build_router
from notifier.wiring.shared_parts import System, build_system
from tests.support.example_event_and_acceptance import accept

VERA = Subject(Kind.MENTION, UserId("vera"))
THRESHOLD = 10
"""Followers from which an account is a celebrity; it stays one down to 9."""
LOYAL = 8
"""Number of followers who never unfollow."""
FOLLOW_CHANGES = [
    ("f8", True, None),
    ("f9", True, Lane.CELEBRITY),
    ("f9", False, None),
    ("f8", False, Lane.STANDARD),
    ("f8", True, None),
    ("f8", False, Lane.STANDARD),
]
"""Each change: follower, whether it follows, and the lane afterwards; None keeps the lane of the last burst."""
TRIES = 600
WAIT = timedelta(milliseconds=100)

T = TypeVar("T")


@dataclass(frozen=True)
class ReadOnly:
    """Asserts that routing and numbering never write follower data."""

    port: Any

    def __getattr__(self, name: str) -> Any:
        assert not name.startswith(("put", "write", "insert")), f"{name} of {self.port}"
        return getattr(self.port, name)


@dataclass
class Crossing:
    ports: Ports
    shown: Callable[[UserId], Sequence[BurstKey] | None]
    """The user's inbox, newest first; None while the store is too slow for a whole page."""
    listed: Callable[[], set[BurstKey] | None]
    """VERA's bursts in the pull index; None while the index proves nothing."""
    pumps: dict[str, StreamProcessor] = field(default_factory=dict)
    expected: list[Lane] = field(default_factory=list)
    """Lane of each mention."""
    changes: int = 0

    def system(self, owner: str) -> System:
        reading: dict[str, Any] = {
            name: ReadOnly(getattr(self.ports, name)) for name in ("sets", "follows", "subject_preferences")
        }
        ports = self.ports if owner == topics.FOLLOWS else replace(self.ports, **reading)
        settings = Settings(threshold=THRESHOLD, collapse=timedelta(0))
        return build_system(ports=ports, settings=settings, metrics=Metrics(), owner=f"reads {owner}")

    def run(self, rounds: int) -> None:
        self.ports.directory.assign_numbers([VERA.owner, UserId("ada")])
        for n in range(LOYAL):
            self.change_follow(f"f{n}")
        lanes = [topics.MENTIONS_STANDARD, topics.MENTIONS_CELEBRITY]
        for turn, (follower, follows, lane) in enumerate(FOLLOW_CHANGES * rounds):
            self.change_follow(follower, ended=not follows)
            self.mention(lane)
            # Mentions of the previous turn wait in one lane, and this one in the other.
            for stream in lanes if turn % 2 else reversed(lanes):
                self.read(stream, self.waiting(stream))
            self.mention(lane)
        for stream in lanes:
            self.read(stream, self.waiting(stream))

    def change_follow(self, follower: str, *, ended: bool = False) -> None:
        self.changes += 1
        data = {"follower": follower, "followed": VERA.owner, "sequence": self.changes}
        self._send(UNFOLLOWED_TYPE if ended else FOLLOWED_TYPE, f"g{self.changes}", data)
        self.read(topics.FOLLOWS, 1)

    def mention(self, lane: Lane | None) -> None:
        """Route a mention with a router that has just started, and do not number it."""
        last = self.ports.heads.load([VERA])[VERA].open
        self.expected.append(lane or (last.lane if last else Lane.STANDARD))
        id = f"e{len(self.expected)}"
        self._send(MENTIONED_TYPE, id, {"tweet": id, "author": "ada", "mentions": [VERA.owner]})
        reading = self._pump(topics.MENTIONS)
        assert isinstance(reading.stage, Router)
        reading.stage = build_router(self.system(topics.MENTIONS))
        self.read(topics.MENTIONS, 1)

    def waiting(self, stream: str) -> int:
        """Count unread records: one per mention in its lane, and one of her own subject in the standard lane."""
        lane = Lane.CELEBRITY if stream == topics.MENTIONS_CELEBRITY else Lane.STANDARD
        own = len(self.expected) if lane is Lane.STANDARD else 0
        return own + self.expected.count(lane) - self._done.get(stream, 0)

    def read(self, stream: str, n: int) -> None:
        reading, before = self._pump(stream), self._done.get(stream, 0)
        for _ in range(TRIES):
            if self._done.get(stream, 0) >= before + n:
                return
            self._done[stream] = self._done.get(stream, 0) + reading.step(WAIT)
        raise AssertionError(f"{stream} has no {n} records")

    def deliver(self) -> None:
        work = build_slice_worker(self.system("worker"))
        for progress in self.ports.ledger.read(self.ports.ledger.unfinished_bursts()).values():
            for slice_ in progress.plan.slices():
                work(slice_)

    def whole_page(self, user: UserId) -> Sequence[BurstKey]:
        """Return the user's inbox. A partial page says that items may be missing, so it is loaded again."""
        for _ in range(TRIES):
            if (keys := self.shown(user)) is not None:
                return keys
        raise AssertionError(f"no whole page for {user}")

    def index_content(self) -> set[BurstKey]:
        """Compare the pull index with the store and return what it lists of VERA.

        A comparison is proof for MAX_COMPARISON_AGE, in real time. A busy machine can need longer than that between the
        comparison and the read. An index without proof promises nothing, so it is compared again, as a running
        reconciler does every second.
        """
        reconcile = build_reconciler(self.system("index"))
        for _ in range(TRIES):
            reconcile()
            if (keys := self.listed()) is not None:
                return keys
        raise AssertionError("the pull index proves nothing")

    def opened(self) -> Sequence[tuple[BurstKey, Lane, datetime]]:
        """Return the bursts of VERA by sequence number."""
        keys = [BurstKey(VERA, seq + 1) for seq in range(len(self.expected) + 1)]
        bursts = self.ports.bursts.read(keys)
        return [(key, bursts[key].lane, bursts[key].opened_at) for key in keys if key in bursts]

    def _pump(self, stream: str) -> StreamProcessor:
        if stream not in self.pumps:
            self.pumps[stream] = build_stream_processor(self.system(stream), stream)
        return self.pumps[stream]

    def _send(self, kind: str, id: str, data: dict[str, object]) -> None:
        event = {"specversion": "1.0", "type": kind, "source": "tests", "id": id, "data": data}
        event |= {"time": self.ports.clock.now().isoformat()}
        receipt = accept(self.system("gateway"), event)
        assert receipt.status is IntakeStatus.ACCEPTED

    _done: dict[str, int] = field(default_factory=dict)


def on_profile(profile: Profile) -> Crossing:
    def run_query(query: Callable[[ReadPorts], Coroutine[Any, Any, T]]) -> T:
        async def run() -> T:
            try:
                return await query(profile.read_ports())
            finally:
                await profile.close_reads()

        return asyncio.run(run())

    def shown(user: UserId) -> Sequence[BurstKey] | None:
        try:
            page = run_query(lambda reads: build_uncached_inbox(reads).page(user, limit=200))
        except StoreUnavailable:  # the read path gives the store two seconds
            return None
        return None if page.partial else [item.entry.key for item in page.items]

    def listed() -> set[BurstKey] | None:
        pulled = run_query(lambda reads: reads.pull.read_newest([VERA]))
        return None if pulled.complete_since is None else {place.burst for place in pulled.positions}

    return Crossing(ports=profile.ports(), shown=shown, listed=listed)


def require_no_gap(crossing: Crossing) -> None:
    """Check that each mention is shown once, in its own burst and lane, and check rows and index."""
    odd, even = crossing.expected[1::2], crossing.expected[2::2]
    assert sum(before is not after for before, after in zip(odd, even, strict=False)) > 1, "the lanes never differed"
    crossing.deliver()
    bursts = crossing.opened()
    keys = [key for key, _, _ in bursts]
    times = [at for _, _, at in bursts]
    assert keys == [BurstKey(VERA, n + 1) for n in range(len(crossing.expected))]
    assert all(before < after for before, after in pairwise(times))
    assert sorted(lane for _, lane, _ in bursts) == sorted(crossing.expected)
    assert crossing.index_content() == set(keys)
    assert crossing.whole_page(UserId("f0")) == keys[::-1]
    rows = [stored.row for stored in crossing.ports.store_scan.rows() if stored.row.burst.subject == VERA]
    # No follower was active for a month: the standard lane writes rows to them, and the celebrity lane to none.
    assert {row.burst for row in rows} == {key for key, lane, _ in bursts if lane is Lane.STANDARD}
    reached = {row.burst: 0 for row in rows}
    for row in rows:
        reached[row.burst] += len(row.offsets())
    assert all(n >= LOYAL for n in reached.values()), reached
    sums = build_reconciler(crossing.system("totals")).totals(keys)
    assert len(sums) == len(keys)
    assert all(entry.is_balanced and not entry.in_flight for entry in sums)
