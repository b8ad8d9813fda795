"""The demo as one watches it: a storm of mentions coming in, and deliveries going out, live in the terminal."""

import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from notifier.domain.audience import TIERS
from notifier.domain.errors import Unavailable
from notifier.domain.ledger import Account
from notifier.domain.slice import Step
from notifier.testing.finding import Finding
from notifier.testing.trial import Script, Trial, trial

LOOKS_EVERY = 0.25


def watched(script: Script) -> Sequence[Finding]:
    """Runs the trial in a thread of its own and shows it until it ends."""
    said: list[str] = []
    found: list[Finding] = []
    failed: list[BaseException] = []
    with trial(script, said.append) as prepared, Live(refresh_per_second=4) as live:

        def run() -> None:
            try:
                found.extend(prepared.run())
            except BaseException as error:
                failed.append(error)

        running = threading.Thread(target=run, name="trial", daemon=True)
        running.start()
        began = time.monotonic()
        while running.is_alive():
            live.update(_picture(prepared, said, time.monotonic() - began))
            running.join(LOOKS_EVERY)
    if failed:
        raise failed[0]
    return found


def _picture(prepared: Trial, said: Sequence[str], seconds: float) -> Group:
    sent = prepared.storm.sent
    accounts: list[Account] = []
    with suppress(Unavailable):
        accounts = prepared.accounts()
    head = Text.assemble((f"{seconds:5.0f} s  ", "dim"), (said[-1] if said else "", "bold"))
    total = len(prepared.storm.tweets)
    words = Text(f"{len(sent.accepted):,} of {total:,} events accepted, {len(accounts):,} bursts fanned out")
    return Group(head, ProgressBar(total=total, completed=len(sent.accepted), width=60), words, _tiers(accounts))


def _tiers(accounts: Sequence[Account]) -> Table:
    table = Table("tier", "people reached", "rows written", "slices left", box=None, pad_edge=False)
    for tier in TIERS:
        standings = [
            standing
            for account in accounts
            for standing in account.standings.values()
            if standing.slice.step is Step.ROWS and standing.slice.tier is tier
        ]
        ended = [standing.ended for standing in standings if standing.ended]
        people, rows = sum(entry.people for entry in ended), sum(entry.rows for entry in ended)
        table.add_row(str(tier), f"{people:,}", f"{rows:,}", f"{len(standings) - len(ended):,}")
    return table
