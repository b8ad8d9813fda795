"""`migrate_with_old_code_running`: a newer version adds to the schema while this one works; nobody notices."""

import os
import shutil
import signal
import time
from contextlib import closing
from pathlib import Path

from benchmarks.chaos.stage import Stage
from notifier.adapters.cassandra import Cluster, Phase, migrate
from notifier.adapters.cassandra.schema.migrate import FOLDER
from notifier.devkit.check.finding import Finding, agreement
from notifier.profiles.cluster_connections import cassandra_access

NAME = "migrate_with_old_code_running"
MENTIONS, LASTING = 60, 14.0
ADDED = """\
-- A trial's.
ALTER TABLE bursts ADD IF NOT EXISTS trial text;
ALTER TABLE mentions ADD IF NOT EXISTS trial text;
ALTER TABLE inbox ADD IF NOT EXISTS trial text;
CREATE TABLE IF NOT EXISTS trial (id text, value text, PRIMARY KEY ((id))) WITH default_time_to_live = 86400;
"""
_FORGET = "DELETE FROM migrations WHERE book = 'schema' AND phase = 'pre' AND number = 999 IF EXISTS"


def run(stage: Stage, *, quick: bool) -> Finding:
    """A role that dies meanwhile is started by the old code, and so is one that starts by itself."""
    folder = newer(stage.data.parent / "newer", ADDED)
    with closing(Cluster(cassandra_access(stage.settings))) as cluster, stage.storming(MENTIONS, LASTING):
        time.sleep(LASTING / 4)
        migrate(cluster, Phase.PRE, folder)
        for role in ("pump", "p0"):
            os.kill(stage.role(role), signal.SIGKILL)
        with stage.another("worker", "p1", name="late") as late:
            time.sleep(LASTING / 2)
            wrong = (
                [f"a role that starts by itself ended: {late.output()[-300:]}"] if late.ended(0.1) is not None else []
            )
    wrong += stage.wrong()
    with closing(Cluster(cassandra_access(stage.settings))) as cluster:
        cluster.execute(_FORGET)  # else a notifier that is started from here refuses to migrate
    return agreement(NAME, wrong, n=MENTIONS)


def newer(folder: Path, added: str, phase: Phase = Phase.PRE) -> Path:
    """The migrations of a version that has one more."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(FOLDER, folder)
    (folder / phase / "0999_trial.cql").write_text(added)
    return folder
