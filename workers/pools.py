"""The worker pools as data: what each consumes, how many processes it has and how politely it takes the processor."""

from dataclasses import dataclass

from notifier.domain.slice import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSpec:
    pool: Pool
    processes: int
    """How many hosts to start. Each runs one slice at a time in its own process: a slice is all the store can take."""
    niceness: int
    """On shared cores P0 must not feel P2: the scheduler gives nice 0 about 28 times the time of nice 15."""


POOLS = {
    Pool.P0: PoolSpec(pool=Pool.P0, processes=1, niceness=0),
    Pool.P1: PoolSpec(pool=Pool.P1, processes=1, niceness=5),
    Pool.P2: PoolSpec(pool=Pool.P2, processes=1, niceness=15),
    Pool.PUSH: PoolSpec(pool=Pool.PUSH, processes=1, niceness=5),
}
