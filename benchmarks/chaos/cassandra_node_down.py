"""`one_node_down`: one of three nodes is killed in a storm, and nothing is lost."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from secrets import token_urlsafe

from benchmarks.chaos.scenario_stage import WORLD, Stage, running_stage
from notifier.api.auth.authenticators import issue_token
from notifier.api.auth.service_and_installation_keys import installation_keys
from notifier.config import Settings
from notifier.devkit.check.check_run import Report
from notifier.devkit.check.finding_and_quantiles import Finding, no_errors
from notifier.devkit.check.http_client import HttpClient
from notifier.devkit.engines.cassandra import Sync, nodes
from notifier.devkit.engines.engine_process import Engine, free_port
from notifier.devkit.engines.kafka import broker
from notifier.devkit.engines.reaper import reaping
from notifier.devkit.engines.valkey import server
from notifier.devkit.fixture import sample_users_and_devices
from notifier.domain.errors import UnusableEnvironment

NAME = "one_node_down"
MENTIONS, STORM_SECONDS = 60, 20.0
TOKEN_LIFETIME = timedelta(hours=1)
POLL_INTERVAL_SECONDS = 0.25
TRIES = 8


def run(folder: Path, *, quick: bool, tell: Report, seed: int) -> Finding:
    with _ring(folder, tell, seed) as (stage, victims):
        wrong = _storm_problems(stage, victims[-1])
        tell("comparing everything with the expected result")
        return no_errors(NAME, wrong + stage.wrong(), n=len(stage.accepted))


def _storm_problems(stage: Stage, victim: Engine) -> list[str]:
    """Run the storm and kill the node. Return all wrong responses; no event may be rejected, not even once."""
    keys, wrong = installation_keys(stage.settings), list[str]()
    viewers, now = sample_users_and_devices.sample(WORLD, 1), stage.ports.clock.now()
    with stage.storming(MENTIONS, STORM_SECONDS) as storm:
        began, requests, killed = time.monotonic(), 0, False
        while time.monotonic() < began + STORM_SECONDS:
            if not killed and time.monotonic() > began + STORM_SECONDS / 4:
                victim.kill()
                killed = True
            person = viewers[requests % len(viewers)]
            wire = HttpClient(url=stage.instance.url, bearer=issue_token(keys, person.user, now, TOKEN_LIFETIME))
            answer = wire.get("/v1/inbox")
            wire.close()
            requests += 1
            if answer.status != 200 or answer.body["partial"]:
                wrong.append(f"an inbox was answered with {answer.status} after {answer.seconds:.1f} s")
            time.sleep(POLL_INTERVAL_SECONDS)
    stage.tell(f"opened {requests} inboxes, retried {storm.sent.retry_count} requests")
    return wrong + [f"{storm.sent.retry_count} requests were rejected at first"] * bool(storm.sent.retry_count)


def _start(engine: Engine) -> None:
    """Start a node, with retries.

    A node exits if it doesn't find the others within a tenth of a second, which is meant for idle machines.
    """
    for more in range(TRIES, 0, -1):
        engine.start()
        try:
            engine.wait_until_ready()
        except UnusableEnvironment:
            if more == 1 or engine.pid is not None:
                raise
        else:
            return


@contextmanager
def _ring(folder: Path, tell: Report, seed: int) -> Iterator[tuple[Stage, list[Engine]]]:
    data, cache = folder / "data", Settings.read().jars.expanduser()
    port, password = free_port(), token_urlsafe(24)
    ring = nodes(data / "services" / "cassandra", cache, 3, port=port, sync=Sync.PERIODIC)
    log = broker(data / "services" / "kafka", cache, port=free_port())
    redis = server(data / "services" / "valkey", port=free_port(), password=password)
    with ExitStack() as closing:
        closing.enter_context(reaping(data / "services"))
        for engine in (*ring, log, redis):
            tell(f"starting {engine.name}")
            closing.callback(engine.stop)
            _start(engine)
        hosts = ",".join(engine_.host for engine_ in ring)
        settings = data / "services" / "settings.toml"
        settings.touch(mode=0o600)  # it contains a password
        settings.write_text(
            f'redis_url = "redis://:{password}@{redis.address}"\n\n[kafka]\nservers = "{log.address}"\n\n'
            f'[cassandra]\nhosts = "{hosts}"\nport = {port}\nreplicas = 3\n'
        )
        yield closing.enter_context(running_stage(data, None, tell, seed)), ring
