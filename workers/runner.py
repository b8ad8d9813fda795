"""The runner: one slice through its handler, and whatever happens becomes an outcome; it knows no queue."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from notifier.domain.delivery.slice import Again, Dead, Outcome, Pool, Slice
from notifier.domain.errors import OUTAGES, BadSubject, Poison

Handler = Callable[[Slice], Outcome]
"""Counts a failure of the slice's own in the ledger before it returns; what it raises was not counted."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Runner:
    handler: Handler

    def __call__(self, text: str) -> Outcome:
        """Never raises: a queue has nothing to decide, because the ledger queues again what isn't done."""
        try:
            piece = Slice.parse(text)
        except BadSubject as error:
            # Nobody waits for it: the ledger holds no slice of this name.
            log.error("There is no slice %r.", text)
            return Dead(cause=str(error))
        outcome = self._handled(piece)
        log.debug("%s: %s", piece, outcome)
        return outcome

    def _handled(self, piece: Slice) -> Outcome:
        try:
            return self.handler(piece)
        except OUTAGES as outage:
            return Again(reason=str(outage))
        except Poison as poison:
            log.error("%s: %s", piece, poison)
            return Dead(cause=str(poison))
        except Exception as error:
            # The claim runs out, and the slice comes again; it can't spin, because a claim has a term.
            log.exception("%s failed in its handler.", piece)
            return Again(reason=f"{type(error).__name__}: {error}")


# The worker pools as data: what each consumes, and how politely it takes the processor.
#
# A host runs one slice at a time, in its own process; how many hosts a machine has, its profile says.


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
