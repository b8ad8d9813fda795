"""`migrate_with_old_code_running`: a newer version extends the schema while the old code works."""

import os
import shutil
import signal
import time
from contextlib import closing
from pathlib import Path

from benchmarks.chaos.scenario_stage import Stage
from notifier.adapters.cassandra import Cluster, Phase, migrate
from notifier.adapters.cassandra.schema.migrate import FOLDER
from notifier.devkit.check.finding_and_quantiles import Finding, no_errors
from notifier.profiles.cluster_connection_parameters import cassandra_access

NAME = "migrate_with_old_code_running"
MENTIONS, STORM_SECONDS = 60, 14.0
ADDED = """\
-- Trial migration.
ALTER TABLE bursts ADD IF NOT EXISTS trial text;
ALTER TABLE mentions ADD IF NOT EXISTS trial text;
ALTER TABLE inbox ADD IF NOT EXISTS trial text;
CREATE TABLE IF NOT EXISTS trial (id text, value text, PRIMARY KEY ((id))) WITH default_time_to_live = 86400;
"""
_FORGET = "DELETE FROM migrations WHERE list_name = 'schema' AND phase = 'pre' AND number = 999 IF EXISTS"


def run(stage: Stage, *, quick: bool) -> Finding:
    """Kill roles meanwhile. The old code restarts them, and another role of the old code starts separately."""
    folder = newer(stage.data.parent / "newer", ADDED)
    with closing(Cluster(cassandra_access(stage.settings))) as cluster, stage.storming(MENTIONS, STORM_SECONDS):
        time.sleep(STORM_SECONDS / 4)
        migrate(cluster, Phase.PRE, folder)
        for role in ("pump", "p0"):
            os.kill(stage.role(role), signal.SIGKILL)
        with stage.another("worker", "p1", name="late") as late:
            time.sleep(STORM_SECONDS / 2)
            wrong = [f"a separately started role ended: {late.output()[-300:]}"] if late.ended(0.1) is not None else []
    wrong += stage.wrong()
    with closing(Cluster(cassandra_access(stage.settings))) as cluster:
        cluster.execute(_FORGET)  # otherwise a notifier started from this repository refuses to migrate
    return no_errors(NAME, wrong, n=MENTIONS)


def newer(folder: Path, added: str, phase: Phase = Phase.PRE) -> Path:
    """Write the migrations of a version with one more migration."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(FOLDER, folder)
    (folder / phase / "0999_trial.cql").write_text(added)
    return folder
