"""The moderation scenario and its operator, who sets verdicts and releases held mentions."""

from collections import deque
from collections.abc import Callable
from datetime import timedelta

from notifier.domain.bursts.moderation import AuthorVerdict, Verdict, validated_verdict
from notifier.domain.errors import DiskFull, Unavailable
from notifier.domain.ids import UserId
from notifier.flow.intake.held_mention_release import HeldMentionRelease
from notifier.ports.all_ports import Ports
from notifier.wiring.shared_parts import System
from tests.support.simulator.script import Script, ScriptEntry, Tweeted, VerdictChanged

POLL_INTERVAL_SECONDS = 0.2
"""Seconds between two rounds of the operator."""


def operator(
    system: System, verdict_changes: deque[VerdictChanged], sleep: Callable[[float], None]
) -> Callable[[], None]:
    """Return a thread that sets each verdict until it is accepted, and releases whatever is held."""
    release, ports = HeldMentionRelease.of(system.ports), system.ports

    def decide() -> None:
        while True:
            try:
                while verdict_changes:
                    _set_verdict(ports, verdict_changes[0])
                    verdict_changes.popleft()
                if held := list(ports.held_mentions.waiting()):
                    release(held, "amy")
            except (Unavailable, DiskFull):
                pass  # retried in the next round
            sleep(POLL_INTERVAL_SECONDS)

    return decide


def _set_verdict(ports: Ports, change: VerdictChanged) -> None:
    user, verdict, now = UserId(change.account), Verdict(change.verdict), ports.clock.now()
    current = ports.author_verdicts.read_current([user]).get(user)
    ports.author_verdicts.put(
        validated_verdict(AuthorVerdict(user=user, verdict=verdict, reason="storm", operator="amy", at=now), current)
    )


def held_mentions() -> Script:
    """In a storm, bob's mentions are held, allowed and held again; held mentions are released all the time."""
    tweets = [
        Tweeted(
            id=f"e{n}", author=("bob", "ada", "bob", "eve")[n % 4], mentioned=("nova", "ghost", "lyra")[: 1 + n % 3]
        )
        for n in range(16)
    ]
    moderations = [VerdictChanged(account="bob", verdict=verdict) for verdict in ("hold", "all", "hold")]
    entries = [ScriptEntry(step=40 + 60 * n, what=tweet) for n, tweet in enumerate(tweets)]
    entries += [ScriptEntry(step=1 + 320 * n, what=moderation) for n, moderation in enumerate(moderations)]
    return Script(seed=1, steps=1_100, entries=entries, collapse=timedelta(0), has_operator=True)
