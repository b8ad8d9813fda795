"""Runner: passes one slice to its handler, and turns errors into results."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from notifier.domain.delivery.slice_and_pool import Dead, Pool, Retry, Slice, SliceResult
from notifier.domain.errors import OUTAGES, BadSubject, Poison

Handler = Callable[[Slice], SliceResult]
"""Works on a slice, and records the result in the ledger. If it raises an error, the slice is unfinished."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs slices by name."""

    handler: Handler

    def __call__(self, name: str) -> SliceResult:
        """Run the slice with this name, and turn errors into results."""
        try:
            slice_ = Slice.parse(name)
        except BadSubject as error:
            # Nothing to record: the ledger contains no slice with this name.
            log.error("invalid slice name: %r", name)
            return Dead(cause=str(error))
        result = self._run_handler(slice_)
        log.debug("%s: %s", slice_, result)
        return result

    def _run_handler(self, slice_: Slice) -> SliceResult:
        try:
            return self.handler(slice_)
        except OUTAGES as outage:
            return Retry(reason=str(outage))
        except Poison as poison:
            log.error("%s: %s", slice_, poison)
            return Dead(cause=str(poison))
        except Exception as error:
            # If the handler has claimed the slice, the slice is queued again only once the claim expires.
            log.exception("handler of %s failed", slice_)
            return Retry(reason=f"{type(error).__name__}: {error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSpec:
    """Settings of the worker processes of one pool."""

    pool: Pool
    niceness: int
    """Nice value of each process. P2 must not delay P0 on shared cores.

    The scheduler gives a process with nice value 0 about 28 times the CPU time of a process with 15.
    """


POOLS = {
    Pool.P0: PoolSpec(pool=Pool.P0, niceness=0),
    Pool.P1: PoolSpec(pool=Pool.P1, niceness=5),
    Pool.P2: PoolSpec(pool=Pool.P2, niceness=15),
    Pool.APNS: PoolSpec(pool=Pool.APNS, niceness=5),
    Pool.FCM: PoolSpec(pool=Pool.FCM, niceness=5),
    Pool.WEB: PoolSpec(pool=Pool.WEB, niceness=5),
}
