"""A time limit is kept by an event loop that is blocked again and again."""

import asyncio
import time
from datetime import timedelta

import pytest

from notifier.concurrency_and_time_limits import LATE_TIMER_SECONDS, limited

LIMIT = timedelta(seconds=0.1)


async def block_repeatedly(*, free: float, blocked: float) -> None:
    while True:
        await asyncio.sleep(free)
        time.sleep(blocked)


def test_limit_is_kept_while_the_event_loop_is_blocked_repeatedly() -> None:
    async def seconds_until_expiry() -> float:
        blocking = asyncio.create_task(block_repeatedly(free=0.05, blocked=3 * LATE_TIMER_SECONDS))
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            async with limited(LIMIT):
                await asyncio.sleep(60)
        blocking.cancel()
        return time.monotonic() - began

    assert asyncio.run(seconds_until_expiry()) < 30


def test_answer_that_arrived_while_the_event_loop_was_blocked_is_in_time() -> None:
    async def answer_later(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        await asyncio.sleep(0.05)  # ends while the event loop is blocked
        writer.write(b"answer\n")
        await writer.drain()
        writer.close()

    async def read_after_block() -> bytes:
        async with await asyncio.start_server(answer_later, "127.0.0.1", 0) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"request\n")
            async with limited(LIMIT):
                asyncio.get_running_loop().call_later(0.02, time.sleep, LIMIT.total_seconds() + 2 * LATE_TIMER_SECONDS)
                answer = await reader.readline()
            writer.close()
            return answer

    assert asyncio.run(read_after_block()) == b"answer\n"
