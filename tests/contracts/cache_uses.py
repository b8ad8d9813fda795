"""How every Redis adapter is used: what is written through it, and what it answers then."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from notifier.adapters.redis import (
    RedisActiveHours,
    RedisActivity,
    RedisBacklogReport,
    RedisBuckets,
    RedisBus,
    RedisCaps,
    RedisInboxVersions,
    RedisLineReport,
    RedisLiveReader,
    RedisPaces,
    RedisPressure,
    RedisPullIndex,
    RedisPullReader,
    RedisRecent,
    RedisTabReport,
    RedisViewerVersions,
    connect,
    connect_async,
)
from notifier.adapters.redis.activity import NEIGHBOURS
from notifier.adapters.redis.connect import AsyncClient, RedisClient
from notifier.domain.audience.bitmap import SHARD_MEMBERS, members
from notifier.domain.bursts.mention import EventId
from notifier.domain.delivery.backlog import Behind
from notifier.domain.delivery.slice import Pool
from notifier.domain.errors import CacheUnavailable
from notifier.domain.ids import BurstKey, Member, Platform, Subject, UserId
from notifier.domain.push.circuit_breaker import LeftAlone
from notifier.domain.token_bucket import BucketLimit
from notifier.metrics import Metrics
from notifier.ports.inbox_versions import member_scope
from notifier.ports.live_bus import Marked
from tests.contracts.cache_use import Use, simple
from tests.contracts.pull_backends import ADA, BEFORE, BO, NOON, NOVA, SUBJECTS, burst
from tests.contracts.recorded import Recorded
from tests.contracts.remembered import KIM, REMEMBERED
from tests.contracts.valkey_fixture import Valkey
from tests.support.fakes.clock import CountedNonces, ManualClock

HOUR = 490_000
LASTING = timedelta(hours=1)
ONE_A_DAY = BucketLimit(capacity=1, refill=24 * LASTING)
TEN_A_DAY = BucketLimit(capacity=10, refill=24 * LASTING)
SCOPE = member_scope(Member(5))
ONE, TWO = EventId("tweets", "1"), EventId("tweets", "2")
MEMBERS = [Member(5), Member(NEIGHBOURS * SHARD_MEMBERS + 7)]
BURSTS = [burst(5, ADA), burst(4), burst(3), burst(2, Subject.parse("mention:zed"))]
"""The newest first, as a rebuild reads them."""


@dataclass(frozen=True, slots=True)
class Caches:
    """All adapters on one server."""

    server: Valkey
    client: RedisClient
    reading: AsyncClient
    runner: asyncio.Runner
    """Of the loop to which the connections of `reading` belong."""
    metrics: Metrics
    used: set[tuple[type, str]] = field(default_factory=set)

    def uses(self) -> Mapping[str, Use]:
        return {
            "activity": self._activity(),
            "backlog": self._backlog(),
            "buckets": self._buckets(),
            "bus": self._bus(),
            "caps": self._caps(),
            "lines": self._lines(),
            "paces": self._paces(),
            "pressure": self._pressure(),
            "pull": self._pull(),
            "recent": self._recent(),
            "tabs": self._tabs(),
            "versions": self._versions(),
        }

    def counted(self, kind: str) -> float:
        return self.metrics.registry.get_sample_value("notifier_cache_garbage_total", {"kind": kind}) or 0.0

    def _on(self, kind: type, *rest: Any) -> Any:
        return Recorded(kind(self.client, *rest), self.used)

    def _awaited(self, kind: type, work: Callable[[Any], Coroutine[Any, Any, Any]], *rest: Any) -> Any:
        """What an asynchronous adapter answers."""
        return self.runner.run(work(Recorded(kind(self.reading, *rest), self.used)))

    def _activity(self) -> Use:
        hours = self._on(RedisActiveHours)

        def read(shard: int) -> object:
            return [members(bits, shard) for bits in hours.read(HOUR, [shard]).values()]

        return simple(
            writes={
                "touch": lambda: hours.touch(MEMBERS, HOUR),
                "touch on the read path": lambda: self._awaited(RedisActivity, lambda to: to.touch(MEMBERS, HOUR)),
                "rolled up": lambda: hours.rolled_up(NOON, LASTING),
            },
            asks={
                "first shard": lambda: read(0),
                "far shard": lambda: read(NEIGHBOURS),
                "last rolled up": hours.last_rolled_up,
            },
        )

    def _backlog(self) -> Use:
        report = self._on(RedisBacklogReport)
        behind = {Pool.P0: Behind(slices=3, since=NOON, later=1)}
        return simple({"tell": lambda: report.tell(behind, LASTING)}, {"told": report.told})

    def _buckets(self) -> Use:
        buckets = self._on(RedisBuckets)
        return simple(
            writes={
                "take": lambda: buckets.take("ann", ONE_A_DAY),
                "spend": lambda: buckets.spend({"bob": 1_000}, TEN_A_DAY),
            },
            asks={
                "take": lambda: buckets.take("ann", ONE_A_DAY),
                "left": lambda: round(buckets.spend({"bob": 0}, TEN_A_DAY)["bob"]),
            },
        )

    def _bus(self) -> Use:
        bus = self._on(RedisBus)
        word = Marked(user=UserId("kim"), bursts=(BurstKey(NOVA, 1),), by="a process")

        async def heard(reader: Any) -> object:
            async with aclosing(reader.listen()) as words, asyncio.timeout(10):
                await anext(words)
                bus.publish([burst(1)])
                await reader.tell(word)
                return [each async for each in _until(words, 2)]

        return simple({}, {"heard": lambda: self._awaited(RedisLiveReader, heard)})

    def _caps(self) -> Use:
        caps = self._on(RedisCaps)
        people = [Member(1), Member(2), Member(5_000)]

        def spend(member: Member) -> object:
            return caps.spend(BurstKey(NOVA, 1), "tweet", people, NOON)[member]

        return simple({"spend": partial(spend, people[0])}, {f"{each}": partial(spend, each) for each in people})

    def _lines(self) -> Use:
        lines = self._on(RedisLineReport)
        left = {name: LeftAlone(until=NOON, reason=f"503 {name}") for name in ("apns", "web push.example")}

        def tell() -> None:
            for name, each in left.items():
                lines.tell(name, each, LASTING)

        def told(name: str) -> object:
            return lines.told().get(name)

        return simple({"tell": tell}, {name: partial(told, name) for name in left})

    def _paces(self) -> Use:
        paces = self._on(RedisPaces)

        def draw(platform: Platform) -> int:
            """All that there is: of a fraction one alert is granted, too."""
            return sum(iter(lambda: paces.draw(platform, 1_000_000, urgent=True, ease=1.0, now=NOON), 0))

        def refused() -> None:
            paces.tell(Platform.FCM, refused=7, slow=False, now=NOON)
            draw(Platform.FCM)

        return simple(
            {"draw": lambda: draw(Platform.APNS), "tell": refused},
            {"apns": lambda: draw(Platform.APNS), "fcm": lambda: draw(Platform.FCM)},
        )

    def _pressure(self) -> Use:
        pressure = self._on(RedisPressure)
        return simple({"raise": lambda: pressure.raise_to(0.5, LASTING)}, {"level": pressure.level})

    def _pull(self) -> Use:
        index, clock = self._on(RedisPullIndex, CountedNonces()), ManualClock(NOON)

        def news(*subjects: Any) -> object:
            return self._awaited(RedisPullReader, lambda reader: reader.news(subjects), clock)

        def reconcile() -> bool:
            """A round as the reconciler does it; whether it succeeded."""
            with suppress(CacheUnavailable):
                if index.generation() is None:
                    index.rebuilt([BURSTS], BEFORE, NOON)
                index.announce(BURSTS)
                index.compared(BEFORE, NOON)
                return index.generation() is not None
            return False

        def mend() -> None:
            assert any(reconcile() for _ in range(3))

        def may_fail(work: Callable[[], object]) -> Callable[[], None]:
            def tried() -> None:
                with suppress(CacheUnavailable):
                    work()

            return tried

        return Use(
            writes={
                "announce": lambda: index.announce(BURSTS),
                "rebuilt": may_fail(lambda: index.rebuilt([BURSTS], BEFORE, NOON)),
                "compared": may_fail(lambda: index.compared(BEFORE, NOON)),
                "reconcile": reconcile,
            },
            asks={
                "nova": lambda: news(NOVA),
                "ada": lambda: news(ADA),
                "quiet": lambda: news(BO),
                "all": lambda: news(*SUBJECTS),
                "lists": lambda: self._awaited(RedisPullReader, lambda reader: reader.subject_lists(SUBJECTS), clock),
                "complete": lambda: index.generation() is not None,
            },
            mend=mend,
        )

    def _recent(self) -> Use:
        recent = self._on(RedisRecent)
        digests = {ONE: "a digest", TWO: "another digest"}
        return simple(
            {"remember": lambda: recent.remember(digests)},
            {
                **{f"digest {event.id}": partial(recent.digests, [event]) for event in digests},
                **{f"recall {event.id}": partial(recent.recall, None, event.id) for event in digests},
                **{f"recall {event}": partial(recent.recall, event.source, event.id) for event in digests},
            },
        )

    def _tabs(self) -> Use:
        tabs = self._on(RedisTabReport)
        return simple(
            {"tell": lambda: tabs.tell("a process", timedelta(milliseconds=30), LASTING)},
            {"worst": tabs.worst},
        )

    def _versions(self) -> Use:
        writer, bus = self._on(RedisViewerVersions), self._on(RedisBus)

        async def plant(versions: Any) -> None:
            await versions.begin([SCOPE], "c1")
            await versions.finish([SCOPE], "c1")
            await versions.plant([SCOPE], "v1")
            await versions.remember(REMEMBERED)

        async def look(versions: Any) -> object:
            with suppress(CacheUnavailable):  # the first look removes what lies in place of the news
                await versions.look([SCOPE], None)
            found = await versions.look([SCOPE], None, [KIM])
            if SCOPE not in found.versions:
                await versions.plant([SCOPE], "v2")  # as every reader does
            await versions.close()
            return found

        def change() -> None:
            writer.begin([SCOPE], "c0")
            writer.finish([SCOPE], "c0")
            self._awaited(RedisInboxVersions, plant)

        look_up = partial(self._awaited, RedisInboxVersions, look, LASTING)
        return simple(
            {"change": change, "publish": lambda: bus.publish([burst(1)])},
            # Any other version proves nothing, as none does.
            {"look": lambda: look_up().versions.get(SCOPE) == "v1", "recall": lambda: KIM in look_up().remembered},
        )


@contextmanager
def caches_on(server: Valkey) -> Iterator[Caches]:
    metrics = Metrics()
    with connect(server.patient, metrics) as client, asyncio.Runner() as runner:
        reading = connect_async(server.patient, metrics)
        try:
            yield Caches(server, client, reading, runner, metrics)
        finally:
            runner.run(reading.aclose())


async def _until(words: Any, many: int) -> Any:
    """The next words, without those that only say that all were heard."""
    while many:
        if (word := await anext(words)) is not None:
            many -= 1
            yield word
