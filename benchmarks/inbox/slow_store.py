"""Measures opens while the store is slow: Cassandra by latency, SQLite by its write lock."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from threading import Event, Thread

from benchmarks.costs_and_figures import Figure, unjudged
from benchmarks.inbox.baseline_and_warm_up import warm_up
from benchmarks.inbox.cases import BARE_PAGE, FIRST, WARM, Case
from benchmarks.inbox.figures import LoadSlice, ratio, right_answers
from benchmarks.inbox.latency_by_request_rate import in_ms, opened
from benchmarks.inbox.measured_system import InboxStage
from benchmarks.inbox.shared_stage_and_case_rounds import SLICE_QUICK_S, SLICE_S, SharedInboxStage
from notifier.devkit.tcp_proxy import TcpProxy

ROUNDS, ROUNDS_QUICK = 3, 2
LATENCY_S = 0.02
"""Latency of the network to Cassandra, in each direction."""
HELD_S, FREE_S = 0.2, 0.05
"""Seconds for which SQLite's write lock is held, and then free. Readers of a write-ahead log don't wait for it, but
writes of the product during an open do."""
RATE, OPEN_S, OPEN_QUICK_S = 50.0, 6.0, 3.0
"""Opens per second, and seconds, of the open loop."""
FIRST_USERS = 100
"""Users per round."""
TIMEOUT_SECONDS = 60.0
HOSTS_VARIABLE, PORT_VARIABLE = "NOTIFIER_CASSANDRA_HOSTS", "NOTIFIER_CASSANDRA_PORT"


def names(profile: str) -> tuple[str, ...]:
    return (
        f"inbox_store_slow_ratio{{{profile},warm}}",
        f"inbox_store_slow_ratio{{{profile},first}}",
        f"inbox_store_slow_p99_ms{{{profile}}}",
        f"inbox_right_answers{{{profile},store}}",
    )


def run(shared: SharedInboxStage, folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    shared.warm(tell)
    stage, profile = shared.stage(tell), shared.profile
    seconds = SLICE_QUICK_S if quick else SLICE_S
    slices: dict[str, list[LoadSlice]] = {name: [] for name in ("bare_page", "warm", "first", "timed")}
    with slow(stage) as strike:
        for number in range(ROUNDS_QUICK if quick else ROUNDS):
            tell(f"round {number + 1}: the store is slow")
            slices["bare_page"].append(stage.measure(BARE_PAGE, seconds=seconds))
            with strike():
                slices["warm"].append(stage.measure(WARM, seconds=seconds))
                user_range = {"first": number * FIRST_USERS, "count": FIRST_USERS}
                slices["first"].append(stage.measure(FIRST, seconds=TIMEOUT_SECONDS, **user_range))
                lasting = OPEN_QUICK_S if quick else OPEN_S
                slices["timed"].append(opened(stage, WARM, RATE, lasting, number))
    timed, opens = in_ms(slices["timed"], "p99"), sum(slice_.reading.opens for slice_ in slices["timed"])
    cases = [Case(name=name, requests=WARM.requests) for name in slices]
    return [
        *(
            ratio(f"inbox_store_slow_ratio{{{profile},{case}}}", slices[case], slices["bare_page"], None)
            for case in ("warm", "first")
        ),
        unjudged(f"inbox_store_slow_p99_ms{{{profile}}}", timed, opens, f"warm, at {RATE:g} opens/s"),
        right_answers(f"inbox_right_answers{{{profile},store}}", cases, slices),
    ]


Strike = Callable[[], AbstractContextManager[None]]


@contextmanager
def slow(stage: InboxStage) -> Iterator[Strike]:
    """Yield a function that makes the store slow during a block.

    The measured process has opened the warm users' inboxes once.
    """
    if stage.engines is None:
        stage.restart_api()
        warm_up(stage)
        yield lambda: held(stage.settings.data / "core.db")
        return
    # The proxy is used in this part only: it costs CPU time even without latency.
    node = stage.engines.fleet.records()["cassandra"]
    proxy = TcpProxy(upstream=(node.host, node.port))
    stage.restart(**{HOSTS_VARIABLE: "127.0.0.1", PORT_VARIABLE: str(proxy.port)})
    try:
        warm_up(stage)
        yield lambda: delayed(proxy)
    finally:
        stage.restart()
        proxy.close()


@contextmanager
def delayed(proxy: TcpProxy) -> Iterator[None]:
    proxy.latency = LATENCY_S
    try:
        yield
    finally:
        proxy.latency = 0.0


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the write lock of a SQLite file during the block, with short pauses. Nothing is written."""
    over = Event()
    thread = Thread(target=_hold, args=(path, over), name="holder", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _hold(path: Path, over: Event) -> None:
    with closing(sqlite3.connect(path, isolation_level=None, timeout=TIMEOUT_SECONDS)) as connection:
        while not over.wait(FREE_S):
            connection.execute("BEGIN IMMEDIATE")
            over.wait(HELD_S)
            connection.execute("ROLLBACK")
