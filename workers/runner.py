"""The runner: one slice through its handler, and whatever happens becomes an outcome; it knows no queue."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from notifier.domain.delivery.slice import Again, Dead, Outcome, Slice
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
