"""`notifier doctor --profile cluster` on real engines, and on servers that never answer."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

import pytest

from notifier.config import Settings
from notifier.devkit.engines.fleet import EngineRecord
from notifier.profiles import choose
from tests.support.cassandra_keyspace import ON_ENGINES

INSPECTED_WITHIN = 20.0
"""Seconds; an idle machine needs five."""


@pytest.fixture
def silent() -> Iterator[Callable[[], str]]:
    """Yield a function that returns the address of a frozen server, which accepts connections but never reads."""
    with ExitStack() as stack:

        def start_server() -> str:
            host, port = stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()
            return f"{host}:{port}"

        yield start_server


@pytest.mark.timeout(120)
@pytest.mark.parametrize("tls", [False, True])
def test_inspection_is_bounded_when_every_engine_hangs(silent: Callable[[], str], tmp_path: Path, *, tls: bool) -> None:
    cassandra, redis = silent(), silent()
    environment = {
        "NOTIFIER_KAFKA_SERVERS": ",".join(silent() for _ in range(3)),
        "NOTIFIER_CASSANDRA_HOSTS": "127.0.0.1",
        "NOTIFIER_CASSANDRA_PORT": cassandra.rpartition(":")[2],
        "NOTIFIER_REDIS_URL": f"redis{'s' if tls else ''}://{redis}",
        "NOTIFIER_BROKERS_P0": f"redis://{silent()}",
        "NOTIFIER_BROKERS_P1": f"amqp://{silent()}",
    }
    profile = choose(Settings.read(environment, profile="cluster", data=tmp_path))
    began = monotonic()
    findings = list(profile.inspect())
    profile.close()
    assert monotonic() - began < INSPECTED_WITHIN
    names = ["cassandra", "kafka", "redis", "broker p0", "broker p1", "broker p2"]
    assert [(finding.name, finding.level) for finding in findings] == [(name, "fail") for name in names]
    assert all("notifier settings" in finding.remedy for finding in findings)


def doctor_checks(folder: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "notifier", "doctor", "--profile", "cluster", "--json", "--data", str(folder)]
    process = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    report = json.loads(process.stdout.splitlines()[-1])
    assert process.returncode == (0 if report["ok"] else 1), process.stderr
    return {check["name"]: check for check in report["checks"]}


@pytest.mark.prove
@pytest.mark.timeout(300)
class TestOnTheFleet:
    pytestmark = ON_ENGINES

    def test_doctor_reports_missing_schema_until_migrated(
        self, fleet: Mapping[str, EngineRecord], tmp_path: Path
    ) -> None:
        name = uuid4().hex[:8]
        environment = {
            "NOTIFIER_KAFKA_SERVERS": fleet["kafka"].address,
            "NOTIFIER_KAFKA_PREFIX": f"{name}.",
            "NOTIFIER_CASSANDRA_HOSTS": fleet["cassandra"].host,
            "NOTIFIER_CASSANDRA_PORT": str(fleet["cassandra"].port),
            "NOTIFIER_CASSANDRA_KEYSPACE": f"doctor_{name}",
            "NOTIFIER_CASSANDRA_REPLICAS": "1",
            "NOTIFIER_REDIS_URL": fleet["valkey"].url,
        }
        before = doctor_checks(tmp_path, environment)
        assert {name for name, check in before.items() if not check["ok"]} == {
            "cassandra schema",
            "cassandra copies",
            "kafka topics",
        }
        assert "`notifier migrate --profile cluster` to create the keyspace" in before["cassandra copies"]["detail"]
        assert "sqlite" not in before
        profile = choose(Settings.read(environment, profile="cluster", data=tmp_path))
        try:
            profile.migrate()
        finally:
            profile.close()
        after = doctor_checks(tmp_path, environment)
        assert [name for name, check in after.items() if not check["ok"]] == []
        assert "three nodes" in after["cassandra copies"]["detail"]
        assert "ten seconds" in after["cassandra commit log"]["detail"]
        assert after["broker p0 policy"]["value"] == "noeviction"
        assert abs(after["cassandra clock"]["value"]) < 0.5
        assert after["dead_letters"]["value"] == 0
