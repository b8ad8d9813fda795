"""`topic_deleted`: a topic is deleted under a running service, and `notifier migrate` restores it."""

import time

from benchmarks.chaos.kafka_broker_down import post, wrong_refusal
from benchmarks.chaos.scenario_stage import Stage
from notifier import topics
from notifier.adapters.kafka import admin_client, translated
from notifier.devkit.check.finding_and_quantiles import Finding, no_errors
from notifier.profiles.cluster_connection_parameters import kafka_access

NAME = "topic_deleted"
MENTIONS = 30
DELETED_SECONDS = 3.0


def run(stage: Stage, *, quick: bool) -> Finding:
    """Delete topics after all of their records are processed, because they are lost."""
    stage.send(MENTIONS)
    wrong = stage.wrong()
    for stream in (topics.MENTIONS, topics.MENTIONS_CELEBRITY):
        stage.tell(f"deleting {stream}")
        _delete(stage, stream)
        time.sleep(DELETED_SECONDS)
        if stream == topics.MENTIONS:
            [tweet] = stage.new_tweets(1)
            wrong += wrong_refusal(post(stage, tweet))
        stage.profile.migrate()
        sent = stage.send(MENTIONS)
        stage.tell(f"after {stream} came back, events were sequenced within {stage.sequenced(sent):.1f} s")
    return no_errors(NAME, wrong + stage.wrong(), n=3 * MENTIONS)


def _delete(stage: Stage, stream: str) -> None:
    access = kafka_access(stage.settings)
    with translated("The topic was not deleted"), admin_client(access) as admin:
        admin.delete_topics([access.topic(stream)])
