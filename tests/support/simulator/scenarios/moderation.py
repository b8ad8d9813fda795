"""The desk: an operator says how far mentions carry, as the script wants it, and lets go whatever is held."""

from collections import deque
from collections.abc import Callable
from datetime import timedelta

from notifier.domain.bursts.moderation import ReachWord, Verdict, checked
from notifier.domain.errors import Full, Unavailable
from notifier.domain.ids import UserId
from notifier.flow.intake.held_mentions import Release
from notifier.ports.all_ports import Ports
from notifier.wiring.system import System
from tests.support.simulator.script import Happening, Judged, Script, Tweeted

LOOKS_EVERY = 0.2
"""Seconds."""


def operator(system: System, judged: deque[Judged], sleep: Callable[[float], None]) -> Callable[[], None]:
    """One word after another, and each until it is heard."""
    release, ports = Release.of(system.ports), system.ports

    def decides() -> None:
        while True:
            try:
                while judged:
                    _say(ports, judged[0])
                    judged.popleft()
                if held := list(ports.holds.waiting()):
                    release(held, "amy")
            except (Unavailable, Full):
                pass  # at the next look
            sleep(LOOKS_EVERY)

    return decides


def _say(ports: Ports, judged: Judged) -> None:
    user, verdict, now = UserId(judged.account), Verdict(judged.verdict), ports.clock.now()
    before = ports.reaches.standing([user]).get(user)
    ports.reaches.say(checked(ReachWord(user=user, verdict=verdict, reason="storm", who="amy", at=now), before))


def a_hold() -> Script:
    """In a storm bob's mentions are held, and pass again, and are held; what is held is let go all the while."""
    tweets = [
        Tweeted(
            id=f"e{n}", author=("bob", "ada", "bob", "eve")[n % 4], mentioned=("nova", "ghost", "lyra")[: 1 + n % 3]
        )
        for n in range(16)
    ]
    words = [Judged(account="bob", verdict=verdict) for verdict in ("hold", "all", "hold")]
    happenings = [Happening(step=40 + 60 * n, what=tweet) for n, tweet in enumerate(tweets)]
    happenings += [Happening(step=1 + 320 * n, what=word) for n, word in enumerate(words)]
    return Script(seed=1, steps=1_100, happenings=happenings, collapse=timedelta(0), desk=True)
