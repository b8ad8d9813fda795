"""`schema_ahead_and_behind`: roles accept additions to the schema, and report missing or removed parts."""

import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from benchmarks.chaos.rolling_migration import newer
from benchmarks.chaos.scenario_stage import Stage
from notifier.adapters.cassandra import CassandraAccess, Cluster, Phase, migrate
from notifier.devkit.check.finding_and_quantiles import Finding, no_errors
from notifier.profiles.cluster_connection_parameters import cassandra_access

NAME = "schema_ahead_and_behind"
ADDED = "CREATE TABLE IF NOT EXISTS trial (id text, PRIMARY KEY ((id))) WITH default_time_to_live = 86400;\n"
EXIT_TIMEOUT_SECONDS = 20.0
"""Time in which a role that refuses to start must have ended."""
ENVIRONMENT_EXIT_CODE = 3
"""Exit code for a problem of the machine or its stores."""


def run(stage: Stage, *, quick: bool) -> Finding:
    """Start a role on keyspaces that are as other versions left them."""
    folder = stage.data.parent
    older_folder = _older(folder / "older")
    added, taken = newer(folder / "added", ADDED), newer(folder / "taken", ADDED, Phase.POST)
    wrong = [
        *_role(stage, "behind", older_folder, (Phase.PRE,), "Missing migration"),
        *_role(stage, "ahead", added, (Phase.PRE,), None),
        *_role(stage, "taken", taken, (Phase.PRE, Phase.POST), "Unknown migration in the store"),
    ]
    return no_errors(NAME, wrong, n=3)


def _role(stage: Stage, name: str, folder: Path, phases: tuple[Phase, ...], refusal: str | None) -> list[str]:
    access = replace(cassandra_access(stage.settings), keyspace=f"trial_{name}")
    _made(access, folder, phases)
    environment = {"NOTIFIER_CASSANDRA_KEYSPACE": access.keyspace}
    with stage.another("worker", "p2", name=name, environment=environment) as role:
        code = role.ended(EXIT_TIMEOUT_SECONDS)
        output = role.output()
    if refusal is None:
        return [] if code is None else [f"{name}: role ended with {code}: {output[-300:]}"]
    right = code == ENVIRONMENT_EXIT_CODE and refusal in output and "Traceback" not in output
    return [] if right else [f"{name}: role ended with {code}: {output[-300:]}"]


def _made(access: CassandraAccess, folder: Path, phases: tuple[Phase, ...]) -> None:
    with closing(Cluster(access)) as cluster:
        for phase in phases:
            migrate(cluster, phase, folder)


def _older(folder: Path) -> Path:
    """Write the migrations of a version that has none of the current migrations."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / Phase.PRE).mkdir(parents=True)
    # Number 0: a shipped file with the same number would count as applied.
    (folder / Phase.PRE / "0000_trial.cql").write_text(ADDED)
    return folder
