"""A coordinator publishes promptly while Valkey hangs."""

import os
import signal
from time import monotonic

from notifier import topics
from notifier.adapters.clock_and_nonces import SystemClock
from notifier.adapters.redis import RedisLiveBus, RedisPullIndex, connect
from notifier.adapters.redis.connect import TIMEOUT
from notifier.devkit.engines.engine_process import suspend
from tests.contracts.valkey_fixture import Valkey, valkey, valkey_server
from tests.support.fakes.clock_and_nonces import CountedNonces
from tests.support.in_memory_system import NOVA, Stage

__all__ = ["valkey", "valkey_server"]

MENTIONS = 6


def test_mentions_are_published_promptly_while_valkey_hangs(valkey: Valkey) -> None:
    stage = Stage()
    pid = valkey.server.pid
    assert pid
    with connect(valkey.url) as client:
        client.ping()
        ports = {"pull": RedisPullIndex(client, CountedNonces()), "bus": RedisLiveBus(client), "clock": SystemClock()}
        pump = stage.pump(topics.MENTIONS_CELEBRITY, **ports)
        suspend(pid)
        try:
            began = monotonic()
            for _ in range(MENTIONS):
                stage.pass_time(minutes=2)
                stage.tweet("nova")
                router = stage.pump(topics.MENTIONS)
                router.step()
                router.consumer.close()
                pump.step()
            waited = monotonic() - began
        finally:
            os.kill(pid, signal.SIGCONT)
    assert stage.bursts(NOVA)
    assert NOVA not in stage.state.heads.unpublished(9)
    # Without a breaker, each mention would wait for two time-outs.
    assert waited < MENTIONS * TIMEOUT
