"""`store_outage`: Cassandra is frozen in a storm. Events are accepted, and inboxes degrade."""

import time
from datetime import timedelta
from threading import Thread

from benchmarks.chaos.scenario_stage import Stage
from notifier.api.auth.authenticators import issue_token
from notifier.api.auth.service_and_installation_keys import installation_keys
from notifier.devkit.check.check_inboxes import InboxObserver
from notifier.devkit.check.fault_injection import OUTAGE_SECONDS
from notifier.devkit.check.finding_and_quantiles import Finding, no_errors
from notifier.devkit.fixture import sample_users_and_devices

NAME = "store_outage"
MENTIONS = 40
TOKEN_LIFETIME = timedelta(hours=1)
POLL_INTERVAL_SECONDS = 0.5


def run(stage: Stage, *, quick: bool) -> Finding:
    keys, now = installation_keys(stage.settings), stage.ports.clock.now()
    stage.send(MENTIONS)
    wrong = stage.wrong()  # every user has something to see
    observer = InboxObserver(
        instance=stage.instance,
        token=lambda user: issue_token(keys, user, now, TOKEN_LIFETIME),
        users=sample_users_and_devices.sample(stage.world, 1),
    )
    observer.open_all()
    freezing = Thread(target=stage.engines.freeze, args=("cassandra", OUTAGE_SECONDS))
    freezing.start()
    with stage.storming(MENTIONS, OUTAGE_SECONDS / 2) as storm:
        while freezing.is_alive():
            observer()
            time.sleep(POLL_INTERVAL_SECONDS)
    observer_finding = observer.finding()
    stage.tell(f"inboxes: {observer_finding.detail}")
    wrong += [] if observer_finding.ok else [observer_finding.detail]
    if "partial" not in observer_finding.detail:
        wrong.append("no user got the last known page again")
    if storm.sent.retry_count:
        wrong.append(f"the tweet service retried {storm.sent.retry_count} requests")
    return no_errors(NAME, wrong + stage.wrong(), n=2 * MENTIONS)
