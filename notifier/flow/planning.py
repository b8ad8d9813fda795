"""Planning: a burst's plan by its subject's head, and by its author's where it is restricted."""

from collections.abc import Collection

from notifier.domain.bursts.burst import Burst
from notifier.domain.delivery.plan import NO_FOLLOWERS, Plan, narrowed, plan
from notifier.domain.ids import Kind, Subject
from notifier.domain.push.device import Platform
from notifier.ports.audience import MemberSets


def planned(sets: MemberSets, burst: Burst, platforms: Collection[Platform]) -> Plan:
    if burst.pull_only:  # no shards: the plan is settled as it is made, and its books balance at 0
        return plan(burst, NO_FOLLOWERS, platforms)
    size = sets.head(burst.key.subject)
    if burst.restricted_to is not None:
        size = narrowed(size, sets.head(Subject(Kind.MENTION, burst.restricted_to)))
    return plan(burst, size, platforms)
