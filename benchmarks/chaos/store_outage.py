"""`store_outage`: Cassandra is frozen in a storm. Events are accepted, and inboxes degrade."""

import time
from datetime import timedelta
from threading import Thread

from benchmarks.chaos.stage import Stage
from notifier.api.auth.identity import issue_token
from notifier.api.auth.service_keys import keys_of
from notifier.devkit.check.faults import OUTAGE, InboxObserver
from notifier.devkit.check.finding import Finding, agreement
from notifier.devkit.fixture import users as people

NAME = "store_outage"
MENTIONS = 40
TOKENS_LAST = timedelta(hours=1)
LOOKS_EVERY = 0.5


def run(stage: Stage, *, quick: bool) -> Finding:
    keys, now = keys_of(stage.settings), stage.ports.clock.now()
    stage.send(MENTIONS)
    wrong = stage.wrong()  # every user has something to see
    onlooker = InboxObserver(
        instance=stage.instance,
        token=lambda user: issue_token(keys, user, now, TOKENS_LAST),
        users=people.sample(stage.world, 1),
    )
    onlooker.open_all()
    freezing = Thread(target=stage.engines.freeze, args=("cassandra", OUTAGE))
    freezing.start()
    with stage.storming(MENTIONS, OUTAGE / 2) as storm:
        while freezing.is_alive():
            onlooker()
            time.sleep(LOOKS_EVERY)
    onlooker_finding = onlooker.finding()
    stage.tell(f"inboxes: {onlooker_finding.detail}")
    wrong += [] if onlooker_finding.ok else [onlooker_finding.detail]
    if "partial" not in onlooker_finding.detail:
        wrong.append("no user got the last known page again")
    if storm.sent.retries:
        wrong.append(f"the tweet service retried {storm.sent.retries} requests")
    return agreement(NAME, wrong + stage.wrong(), n=2 * MENTIONS)
