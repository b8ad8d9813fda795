"""The throttles that hold work back at this moment, ramps included."""

from notifier.domain.delivery.throttle import RAMP
from notifier.ports.all_ports import Ports


def holding(ports: Ports) -> frozenset[str]:
    """Their ids: a slice that one of them parked, and that nothing has queued since, is parked."""
    now = ports.clock.now()
    found = ports.throttles.since(now - RAMP)
    return frozenset(throttle.id for throttle in found if throttle.active(now) or throttle.ramping(now))
