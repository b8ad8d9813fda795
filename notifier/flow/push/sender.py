"""The ringing: a batch of parts is noted, sent to its provider, and noted again with whatever became of it."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from notifier.domain.audience.tiers import Tier
from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.ledger import stale
from notifier.domain.errors import OUTAGES
from notifier.domain.ids import Platform
from notifier.domain.push.alert import Alert, alert, summary, told_late
from notifier.domain.push.device import Device, DeviceId
from notifier.domain.push.receipt import DropToken, Receipt, RetryAt
from notifier.domain.push.send_log import Fate, Missed, Window, is_over, later, missed
from notifier.flow.delivery.slice_worker import Hold, LostClaim
from notifier.flow.devices.registry import PhoneBook
from notifier.flow.push.batches import Call, Part
from notifier.flow.push.circuit_breakers import Breakers, line_of
from notifier.flow.push.rate_limiter import Pacing
from notifier.metrics import Metrics
from notifier.ports.clock import Clock
from notifier.ports.push import Provider, Sent

URGENT = (Tier.P0, Tier.P1)
"""Whoever is around now; the others' phones show it, and don't wake for it."""
SLOW = timedelta(seconds=1)
"""For the first answer: then a provider has more than it can take."""
ACCEPTED, LEFT_ALONE = "accepted", "its provider is left alone for a while"
NO_MORE = "its person is to be told no more, or it is somebody else's"
TOO_LATE = "half an hour was over before it could be sent again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ringing:
    sent: Sent
    providers: Mapping[Platform, Provider]
    breakers: Breakers
    pacing: Mapping[Platform, Pacing]
    book: PhoneBook
    clock: Clock
    chance: Callable[[], float]
    metrics: Metrics

    def __call__(self, burst: Burst, parts: Sequence[Part], hold: Hold) -> Sequence[Window]:
        """The parts' windows as they were closed. Raises LostClaim, and then nothing was sent."""
        new = [(part.sending, part.window) for part in parts if not part.written]
        # Dead before this line: nothing was sent, and somebody else does it. Behind it: what is in these windows, and
        # no others, is tried again, with the same ids, and a phone that has the alert replaces it.
        if not all(self.sent.intend(new)):
            raise LostClaim
        # Who slept until now has an heir, to whom these windows were in doubt, and who has sent them.
        hold.going()
        found = self._send(burst, parts, hold)
        closed = [(part.sending, replace(part.window, missed=tuple(found[n]))) for n, part in enumerate(parts)]
        self.sent.close(closed)
        return [window for _, window in closed]

    def _send(self, burst: Burst, parts: Sequence[Part], hold: Hold) -> Mapping[int, list[Missed]]:
        """What was missed, by the part's place."""
        found, heard, gone = defaultdict[int, list[Missed]](list), list[datetime](), dict[Device, datetime | None]()
        began, refused = self.clock.now(), 0
        for place, part in enumerate(parts):
            found[place].extend(self._unsent(part))
        for text, calls in self._by_alert(burst, parts).items():
            for place, call, receipt in self._receipts(text, calls):
                hold.going()
                heard = heard or [self.clock.now()]
                if isinstance(receipt, DropToken):
                    gone[call.device] = receipt.at
                refused += isinstance(receipt, RetryAt) and not receipt.alone
                if (one := self._noted(burst, call, receipt)) is not None:
                    found[place].append(one)
        with suppress(*OUTAGES):  # fails open: the next alert finds out again
            self.book.drop(gone)
        if heard:
            # Who asks to be asked later, or takes long for an answer, is asked less.
            slow, platform = heard[0] - began > SLOW, parts[0].sending.platform
            self.pacing[platform].tell(self.clock.now(), refused=refused, slow=slow)
        return found

    def _unsent(self, part: Part) -> Sequence[Missed]:
        found = part.window.missed or [*_left_out(part)]
        for one in found:
            self.metrics.receipts.labels(part.sending.platform, one.fate).inc()
        return found

    def _by_alert(self, burst: Burst, parts: Sequence[Part]) -> Mapping[Alert, Mapping[DeviceId, tuple[int, Call]]]:
        found = defaultdict[Alert, dict[DeviceId, tuple[int, Call]]](dict)
        alerts: dict[int, Alert] = {}
        now = self.clock.now()
        late = stale(burst, now)
        for place, part in enumerate(parts):
            urgent = part.sending.tier in URGENT
            for call in part.calls:
                away = call.tried.away
                if away not in alerts:
                    one = summary(burst, away) if away > 1 else alert(burst, urgent=urgent and not away and not late)
                    alerts[away] = told_late(one, now) if late else one
                found[alerts[away]][call.device.id] = place, call
        return found

    def _receipts(
        self, text: Alert, calls: Mapping[DeviceId, tuple[int, Call]]
    ) -> Iterator[tuple[int, Call, Receipt | None]]:
        """None for those to whose line nothing is sent for a while: they are asked as there is room for them."""
        unasked = dict(calls)

        def asked() -> Iterator[Device]:
            for _, call in calls.values():
                if self.breakers.asks(line_of(call.device)):
                    del unasked[call.device.id]
                    yield call.device

        [platform] = {call.device.platform for _, call in calls.values()}
        for device, receipt in self.providers[platform].send(text, asked()):
            self.breakers.tells(line_of(device), receipt)
            yield *calls[device.id], receipt
        yield from ((place, call, None) for place, call in unasked.values())

    def _noted(self, burst: Burst, call: Call, receipt: Receipt | None) -> Missed | None:
        now = self.clock.now()
        if receipt is None:
            until = self.breakers.rests_until(line_of(call.device)) or now + self.breakers.terms.rest
            one: Missed | None = later(call.tried, Fate.HELD, until, LEFT_ALONE)
        else:
            one = missed(call.tried, receipt, now, self.chance())
        self.metrics.receipts.labels(call.device.platform, one.fate if one else ACCEPTED).inc()
        if one is None and not call.tried.tries and not call.tried.away:  # a night that is slept through isn't slow
            self.metrics.push.labels(call.device.platform).observe((now - burst.accepted_at).total_seconds())
        return one


def _left_out(part: Part) -> Iterator[Missed]:
    """Devices that were to be sent to again, and aren't any more."""
    called = {call.device.id for call in part.calls}
    for tried in part.window.again:
        if tried.device not in called:
            over = is_over(tried, part.window.at)
            fate, reason = (Fate.GIVEN_UP, TOO_LATE) if over else (Fate.SPARED, NO_MORE)
            yield Missed(tried=tried, fate=fate, reason=reason)
