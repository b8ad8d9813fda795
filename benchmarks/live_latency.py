"""`python -m benchmarks live`: measures how soon a mention reaches one stream and a thousand."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.costs_and_figures import Figure, Spread, worst_at_most
from benchmarks.fanout.measured_notifier import FanoutStage, staged
from benchmarks.fanout.suite import Parts
from benchmarks.process_stats import allow_files
from notifier.devkit.check.finding_and_quantiles import no_errors
from notifier.devkit.fixture.world import World
from notifier.domain.bursts.burst import Burst
from notifier.domain.ids import Kind, Subject, UserId
from notifier.ports.live_bus import LiveReader

LISTENERS = 1_000
LIVE_S, ALL_S = 1.0, 1.0
ALONE_ROUNDS, ALONE_ROUNDS_QUICK, TOGETHER_ROUNDS, TOGETHER_ROUNDS_QUICK = 30, 10, 5, 3
"""Numbers of rounds."""
OPENS_AT_ONCE = 50
TIMEOUT_SECONDS = 30.0
ROUND_PAUSE_SECONDS = 0.5
"""Seconds between two rounds, in which a second message about a burst would arrive."""
FILES = LISTENERS + 200
"""Each connection is a file here and another one in the API, which inherits the limit. If the limit is too low, the
benchmark fails."""


@dataclass(slots=True, kw_only=True)
class OpenStream:
    """One open stream over its own connection, which records when its rows arrive."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    rows: "asyncio.Queue[float]" = field(default_factory=asyncio.Queue)
    task: "asyncio.Task[None] | None" = None

    async def follow(self) -> None:
        unparsed = b""
        while chunk := await self.reader.read(65_536):
            unparsed += chunk
            for _ in range(unparsed.count(b"\nevent: row\n")):
                self.rows.put_nowait(time.monotonic())
            unparsed = unparsed[-len(b"\nevent: row\n") + 1 :]


@dataclass(slots=True, kw_only=True)
class StreamAudience:
    stage: FanoutStage
    bus: LiveReader
    subject: Subject
    messages: list[tuple[int, int]] = field(default_factory=list)
    """Burst and version of each message. Two publishers may finish one head and send the same message twice."""

    @asynccontextmanager
    async def listening(self, users: Sequence[UserId]) -> AsyncIterator[list[OpenStream]]:
        streams: list[OpenStream] = []
        counting = asyncio.create_task(self._count())
        try:
            for at in range(0, len(users), OPENS_AT_ONCE):
                streams += await asyncio.gather(*map(self._open, users[at : at + OPENS_AT_ONCE]))
            yield streams
        finally:
            for stream in streams:
                stream.writer.close()
            await _ended({counting, *(stream.task for stream in streams if stream.task)})

    async def round(self, streams: Sequence[OpenStream]) -> float:
        """Return the seconds from the 202 of a mention until the last stream has its row."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self.stage.mention, self.subject.owner)
        accepted = time.monotonic()
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return max(await asyncio.gather(*(stream.rows.get() for stream in streams))) - accepted

    async def spaced_round(self, streams: Sequence[OpenStream]) -> float:
        """Run a round and pause, so that late messages are counted and no stream reaches its rate limit."""
        latency = await self.round(streams)
        await asyncio.sleep(ROUND_PAUSE_SECONDS)
        return latency

    async def _open(self, user: UserId) -> OpenStream:
        place = urlsplit(self.stage.instance.url)
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        token = self.stage.token(user)
        head = f"GET /v1/inbox/stream HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n\r\n"
        writer.write(head.encode())
        async with asyncio.timeout(TIMEOUT_SECONDS):
            first = await reader.readuntil(b"event: count")
        assert first.startswith(b"HTTP/1.1 200"), first
        stream = OpenStream(reader=reader, writer=writer)
        stream.task = asyncio.create_task(stream.follow())
        return stream

    async def _count(self) -> None:
        """Listen on the bus like the API, and count the messages."""
        async with aclosing(self.bus.listen()) as updates:
            async for update in updates:
                if isinstance(update, Burst) and update.key.subject == self.subject:
                    self.messages.append((update.key.seq, update.version))


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    allow_files(FILES)
    world = World(universe=2 * LISTENERS, followers=2 * LISTENERS, celebrities=1, seed=1)
    with staged(folder / "live", world, tell=tell, threshold=1, collapse="0") as stage:
        return asyncio.run(_measure(stage, quick=quick, tell=tell))


async def _measure(stage: FanoutStage, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    reads = stage.profile.read_ports()
    audience = StreamAudience(
        stage=stage,
        bus=reads.live,
        subject=Subject(Kind.MENTION, stage.world.names[0]),
    )
    try:
        users = await stage.followers(reads.people, audience.subject, LISTENERS)
        tell("one listener")
        async with audience.listening(users[:1]) as streams:
            alone = [await audience.spaced_round(streams) for _ in range(ALONE_ROUNDS_QUICK if quick else ALONE_ROUNDS)]
        tell(f"{LISTENERS:,} listeners")
        async with audience.listening(users) as streams:
            audience.messages.clear()
            rounds = TOGETHER_ROUNDS_QUICK if quick else TOGETHER_ROUNDS
            together = [await audience.spaced_round(streams) for _ in range(rounds)]
    finally:
        await stage.profile.close_reads()
    different, sent = len(set(audience.messages)), len(audience.messages)
    detail = (
        f"{different} messages on the bus for {rounds} bursts to {LISTENERS:,} listeners each, {sent} with repeats."
    )
    wrong = [detail] if different != rounds or sent > 2 * rounds else []
    return [
        worst_at_most("live_visible_s{stream}", alone, LIVE_S, detail="From the 202 to the row on a stream."),
        worst_at_most("sse_1000_s", together, ALL_S, detail=f"From the 202 to the last listener's row. {detail}"),
        Figure(
            finding=no_errors("live_messages_per_burst", wrong, n=rounds),
            ours=Spread.of([different / rounds], "messages"),
        ),
    ]


async def _ended(tasks: "set[asyncio.Task[None]]") -> None:
    """Cancel the tasks until all have ended.

    Without repetition a benchmark once waited forever, for an unknown reason.
    """
    while tasks:
        for task in tasks:
            task.cancel()
        done, tasks = await asyncio.wait(tasks, timeout=1.0)
        await asyncio.gather(*done, return_exceptions=True)


PARTS: Parts = {"live": (run, ("live_visible_s{stream}", "sse_1000_s", "live_messages_per_burst"))}
