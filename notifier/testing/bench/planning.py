"""Planning a burst to 200,000,000 followers: the head read, the plan made, written and read back with every slice."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from notifier.adapters.sqlite.bursts import SqliteBursts
from notifier.adapters.sqlite.files import Files
from notifier.adapters.sqlite.ledger import SqliteLedger
from notifier.adapters.sqlite.sets import SqliteMemberSets
from notifier.adapters.system_clock import SystemClock
from notifier.domain.bits import SHARD_MEMBERS
from notifier.domain.plan import SetHead, plan
from notifier.domain.subject import BurstKey, Kind, Subject, UserId
from notifier.testing.bench.delivery import opened
from notifier.testing.bench.machine import forget_peak, peak_mb, resident_mb
from notifier.testing.bench.rounds import Figure, Spread, seconds, slowest
from notifier.testing.finding import at_most

FOLLOWERS = 200_000_000
PLAN_S = 1.0
PLAN_MB = 20.0
ROUNDS = 5


def run(folder: Path, *, quick: bool, tell: Callable[[str], None]) -> list[Figure]:
    tell("planning for 200,000,000 followers")
    files, clock = Files.at(folder / "planning"), SystemClock()
    (folder / "planning").mkdir()
    files.migrate()
    sets, ledger, bursts = SqliteMemberSets(files.core), SqliteLedger(files.core), SqliteBursts(files.core)
    subject = Subject(Kind.MENTION, UserId("nova"))
    sets.put_head(subject, SetHead(total=FOLLOWERS, counts=_counts()))

    def once(seq: int) -> None:
        burst = opened(BurstKey(subject, seq), clock.now())
        bursts.write([burst], [])
        planned = plan(burst, sets.head(subject))
        ledger.plan([planned])
        standings = ledger.read([burst.key])[burst.key].standings
        assert sum(piece.width for piece in standings) >= 3 * len(_counts())

    forget_peak()
    before = resident_mb()
    took = [seconds(partial(once, seq)) for seq in range(1, ROUNDS + 1)]
    grown = peak_mb() - before
    files.close()
    memory = at_most("plan_200m_rss_mb", grown, PLAN_MB, unit="MB", detail="how far the peak rose above the start")
    return [slowest("plan_200m_s", took, PLAN_S), Figure(finding=memory, ours=Spread.of([grown], "MB"))]


def _counts() -> list[int]:
    full, rest = divmod(FOLLOWERS, SHARD_MEMBERS)
    return [SHARD_MEMBERS] * full + [rest] * bool(rest)
