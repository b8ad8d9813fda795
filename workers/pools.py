"""The worker pools as data: what each consumes, and how politely it takes the processor.

A host runs one slice at a time, in its own process; how many hosts a machine has, its profile says.
"""

from dataclasses import dataclass

from notifier.domain.delivery.slice import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSpec:
    pool: Pool
    niceness: int
    """On shared cores P0 must not feel P2: the scheduler gives nice 0 about 28 times the time of nice 15."""


POOLS = {
    Pool.P0: PoolSpec(pool=Pool.P0, niceness=0),
    Pool.P1: PoolSpec(pool=Pool.P1, niceness=5),
    Pool.P2: PoolSpec(pool=Pool.P2, niceness=15),
    Pool.APNS: PoolSpec(pool=Pool.APNS, niceness=5),
    Pool.FCM: PoolSpec(pool=Pool.FCM, niceness=5),
    Pool.WEB: PoolSpec(pool=Pool.WEB, niceness=5),
}
