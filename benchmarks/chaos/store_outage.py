"""`store_outage`: Cassandra is frozen in a storm; events are accepted, tabs answer what they can, nothing dies."""

import time
from datetime import timedelta
from threading import Thread

from benchmarks.chaos.stage import Stage
from notifier.api.auth.identity import issue
from notifier.api.auth.service_keys import keys_of
from notifier.devkit.check.faults import OUTAGE, Onlooker
from notifier.devkit.check.finding import Finding, agreement
from notifier.devkit.fixture import users as people

NAME = "store_outage"
MENTIONS = 40
TOKENS_LAST = timedelta(hours=1)
LOOKS_EVERY = 0.5


def run(stage: Stage, *, quick: bool) -> Finding:
    keys, now = keys_of(stage.settings), stage.ports.clock.now()
    stage.send(MENTIONS)
    wrong = stage.wrong()  # and everybody has something to see
    onlooker = Onlooker(
        instance=stage.instance,
        token=lambda user: issue(keys, user, now, TOKENS_LAST),
        people=people.sample(stage.world, 1),
    )
    onlooker.everybody()
    freezing = Thread(target=stage.engines.freeze, args=("cassandra", OUTAGE))
    freezing.start()
    with stage.storming(MENTIONS, OUTAGE / 2) as storm:
        while freezing.is_alive():
            onlooker()
            time.sleep(LOOKS_EVERY)
    told = onlooker.finding()
    stage.tell(f"tabs: {told.detail}")
    wrong += [] if told.ok else [told.detail]
    if "partial" not in told.detail:
        wrong.append("nobody was shown again what they were shown before")
    if storm.sent.retries:
        wrong.append(f"{storm.sent.retries} requests of the tweet service had to be sent again")
    return agreement(NAME, wrong + stage.wrong(), n=2 * MENTIONS)
