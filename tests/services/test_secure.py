"""`tls_auth_on`: Kafka, Cassandra and Valkey behind TLS and passwords, from the settings to a record and a head.

The Valkey of the wheel was built without TLS: a proxy of this test's speaks it in front of that server.
"""

import asyncio
import logging
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import TypeVar

import pytest

from notifier.adapters.cassandra import CassandraAccess, Cluster, security
from notifier.config import Settings
from notifier.devkit.engines.cassandra import Sync, node
from notifier.devkit.engines.engine import Security, free_port
from notifier.devkit.engines.kafka import broker
from notifier.devkit.engines.valkey import server
from notifier.domain.delivery.slice import Pool
from notifier.domain.errors import (
    BadSetting,
    CacheUnavailable,
    Environment,
    LogUnavailable,
    NotifierError,
    QueueUnavailable,
    StoreUnavailable,
)
from notifier.ports.event_log import Record
from notifier.profiles import choose
from notifier.profiles.cluster import Clustered
from notifier.topics import GROUPS, MENTIONS
from tests.contracts.test_heads import FIRST
from tests.services.terminating import terminating
from tests.support.contract_examples import NOVA
from tests.support.lossy_cassandra import ON_ENGINES
from tests.support.test_ca import Authority

pytestmark = ON_ENGINES

T = TypeVar("T")

USER, PASSWORD, WRONG = "notifier", "s3cr3t-Word", "wr0ng-Word"
STARTS_WITHIN = 120.0
"""Seconds, where others work, too."""
GIVES_UP_WITHIN = 20.0
"""Seconds until a client has said what is wrong; the drivers would go on for half a minute, or for ever."""
FOLDERS = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """Engines that let nobody in who isn't known."""

    folder: Path
    ca: Path
    other: Path
    """The certificate of an authority that vouches for none of them."""
    servers: str
    port: int
    plain: int
    """The port at which Valkey speaks no TLS."""
    redis: int

    def url(self, *, user: str = USER, password: str = PASSWORD, ca: Path | None = None, more: str = "") -> str:
        return f"rediss://{user}:{password}@127.0.0.1:{self.redis}/0?ssl_ca_certs={ca or self.ca}{more}"

    def environment(self, **said: str) -> dict[str, str]:
        """Of a person who is known, but for what is said otherwise."""
        folder = self.folder / f"data-{next(FOLDERS)}"
        folder.mkdir()
        return {
            "NOTIFIER_PROFILE": "cluster",
            "NOTIFIER_KAFKA_SERVERS": self.servers,
            "NOTIFIER_KAFKA_PREFIX": "secure.",
            "NOTIFIER_KAFKA_USER": USER,
            "NOTIFIER_KAFKA_PASSWORD": PASSWORD,
            "NOTIFIER_KAFKA_CA": str(self.ca),
            "NOTIFIER_CASSANDRA_HOSTS": "127.0.0.1",
            "NOTIFIER_CASSANDRA_PORT": str(self.port),
            "NOTIFIER_CASSANDRA_KEYSPACE": "secure",
            "NOTIFIER_CASSANDRA_REPLICAS": "1",
            "NOTIFIER_CASSANDRA_USER": USER,
            "NOTIFIER_CASSANDRA_PASSWORD": PASSWORD,
            "NOTIFIER_CASSANDRA_CA": str(self.ca),
            "NOTIFIER_REDIS_URL": self.url(),
            "NOTIFIER_DATA": str(folder),
            **said,
        }

    def settings(self, **said: str) -> Settings:
        return Settings.read(self.environment(**said))


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    folder, cache = tmp_path_factory.mktemp("secure"), Settings.read({}).jars.expanduser()
    authority, other = Authority.made(folder, "authority"), Authority.made(folder, "other")
    shut = Security(certificate=authority.server(), ca=authority.file, user=USER, password=PASSWORD)
    kafka = broker(folder / "kafka", cache, port=free_port(), security=shut)
    cassandra = node(folder / "cassandra", cache, port=free_port(), sync=Sync.PERIODIC, security=shut)
    valkey = server(folder / "valkey", port=free_port(), password=PASSWORD, user=USER)
    with ExitStack() as stack:
        for engine in (kafka, cassandra, valkey):
            stack.callback(engine.kill)
            engine.start()
        for engine in (kafka, cassandra, valkey):
            engine.ready(STARTS_WITHIN)
        known(cassandra.port, authority.file)
        yield Closed(
            folder=folder,
            ca=authority.file,
            other=other.file,
            servers=kafka.address,
            port=cassandra.port,
            plain=valkey.port,
            redis=stack.enter_context(terminating(shut.certificate, valkey.port)),
        )


def known(port: int, ca: Path) -> None:
    """Makes our user, as the first one; the node makes that one a moment after it listens."""
    given = security(user="cassandra", password="cassandra", ca=str(ca))
    deadline = monotonic() + STARTS_WITHIN
    while True:
        cluster = Cluster(CassandraAccess(hosts=["127.0.0.1"], port=port, keyspace="system", security=given))
        try:
            words = (
                f"CREATE ROLE IF NOT EXISTS {USER} WITH PASSWORD = '{PASSWORD}' AND LOGIN = true AND SUPERUSER = true"
            )
            cluster.execute(words)
            return
        except (Environment, StoreUnavailable):
            if monotonic() > deadline:
                raise
            sleep(0.2)
        finally:
            cluster.close()


@pytest.fixture
def opened() -> Iterator[Callable[[Settings], Clustered]]:
    with ExitStack() as stack:

        def made(settings: Settings) -> Clustered:
            profile = choose(settings)
            assert isinstance(profile, Clustered)
            stack.callback(profile.close)
            return profile

        yield made


Opened = Callable[[Settings], Clustered]


def in_time(wrong: type[NotifierError], words: str, ask: Callable[[], object]) -> None:
    """It says what is wrong, soon, and no password by any way, the causes of the causes included."""
    began = monotonic()
    with pytest.raises(wrong, match=words) as caught:
        ask()
    assert monotonic() - began < GIVES_UP_WITHIN
    told = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert PASSWORD not in told
    assert WRONG not in told


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_who_is_known_migrates_writes_and_reads_on_all_of_them(
    closed: Closed, opened: Opened, caplog: pytest.LogCaptureFixture, mechanism: str
) -> None:
    caplog.set_level(logging.DEBUG)
    settings = closed.settings(NOTIFIER_KAFKA_MECHANISM=mechanism)
    profile = opened(settings)
    profile.migrate()
    profile.prepare()
    profile.require_log()
    assert list(profile.pending()) == []
    profile.require_services()
    ports = profile.ports()
    ports.log.append([Record(stream=MENTIONS, key="nova", value=b"written behind TLS")])
    reader = ports.log.subscribe(MENTIONS, GROUPS[MENTIONS], "router")
    try:
        found = next(read for _ in range(20) if (read := reader.poll(1, timedelta(seconds=1))))
    finally:
        reader.close()
    assert found[0].record.value == b"written behind TLS"
    ports.heads.swap([FIRST])
    assert ports.heads.load([NOVA]) == {NOVA: FIRST}
    since = FIRST.last_opened_at
    assert since is not None
    assert patiently(ports.pull.generation) is None or mechanism != "SCRAM-SHA-512"
    patiently(lambda: ports.pull.rebuilt([], since, since))
    assert patiently(ports.pull.generation) is not None
    assert patiently(lambda: asyncio.run(asked(profile))) == 0
    assert {patiently(partial(ports.queue.depth, pool)) for pool in Pool} == {0}
    assert PASSWORD not in caplog.text
    assert PASSWORD not in repr(settings) + repr(profile.__dict__) + repr(ports)


def patiently(ask: Callable[[], T]) -> T:
    """Half a second to shake hands is plenty for a server, and little for a proxy in Python on a busy machine."""
    deadline = monotonic() + STARTS_WITHIN
    while True:
        try:
            return ask()
        except (CacheUnavailable, QueueUnavailable):
            if monotonic() > deadline:
                raise
            sleep(0.5)


async def asked(profile: Clustered) -> int:
    try:
        return len((await profile.reads().pull.news([NOVA])).places)
    finally:
        await profile.leave()


def test_a_wrong_password_is_told_at_once(closed: Closed, opened: Opened) -> None:
    kafka = opened(closed.settings(NOTIFIER_KAFKA_PASSWORD=WRONG))
    in_time(Environment, "Kafka at .* refuses the user", kafka.pending)
    plain = opened(closed.settings(NOTIFIER_KAFKA_PASSWORD=WRONG, NOTIFIER_KAFKA_MECHANISM="PLAIN"))
    in_time(Environment, "Kafka at .* refuses the user", plain.pending)
    cassandra = opened(closed.settings(NOTIFIER_CASSANDRA_PASSWORD=WRONG))
    in_time(Environment, "Cassandra at .* refuses the user", cassandra.prepare)
    redis = opened(closed.settings(NOTIFIER_REDIS_URL=closed.url(password=WRONG)))
    in_time(CacheUnavailable, "AuthenticationError", redis.require_services)
    in_time(QueueUnavailable, "invalid username-password", lambda: redis.ports().queue.depth(Pool.P0))


def test_who_gives_no_name_is_not_let_in(closed: Closed, opened: Opened) -> None:
    nobody = {"NOTIFIER_KAFKA_USER": "", "NOTIFIER_KAFKA_PASSWORD": ""}
    in_time(Environment, "Kafka at .* refuses the user", opened(closed.settings(**nobody)).pending)
    cassandra = opened(closed.settings(NOTIFIER_CASSANDRA_USER=""))
    in_time(Environment, "Cassandra at .* refuses the user", cassandra.prepare)


def test_a_certificate_of_another_authority_is_not_believed(closed: Closed, opened: Opened) -> None:
    other = str(closed.other)
    in_time(Environment, "Kafka at .* certificate", opened(closed.settings(NOTIFIER_KAFKA_CA=other)).pending)
    in_time(Environment, "Cassandra at .* certificate", opened(closed.settings(NOTIFIER_CASSANDRA_CA=other)).prepare)
    redis = opened(closed.settings(NOTIFIER_REDIS_URL=closed.url(ca=closed.other)))
    in_time(CacheUnavailable, "certificate verify failed", redis.require_services)
    in_time(QueueUnavailable, "certificate verify failed", lambda: redis.ports().queue.depth(Pool.P0))


def test_without_a_word_about_it_celery_looks_at_certificates_too(closed: Closed, opened: Opened) -> None:
    """Its library wouldn't, of an address that only begins with rediss."""
    bare = f"rediss://{USER}:{PASSWORD}@127.0.0.1:{closed.redis}/0"
    profile = opened(closed.settings(NOTIFIER_REDIS_URL=bare))
    in_time(QueueUnavailable, "certificate verify failed", lambda: profile.ports().queue.depth(Pool.P0))


@pytest.mark.parametrize("name", ["NOTIFIER_KAFKA_CA", "NOTIFIER_CASSANDRA_CA"])
@pytest.mark.parametrize("content", [None, "no certificate"])
def test_an_authority_whose_certificate_cant_be_read_is_a_bad_setting(
    closed: Closed, opened: Opened, tmp_path: Path, name: str, content: str | None
) -> None:
    ca = tmp_path / "ca.pem"
    if content is not None:
        ca.write_text(content)
    in_time(BadSetting, r"authority, .*/ca\.pem, can't be read", lambda: opened(closed.settings(**{name: str(ca)})))


def test_plain_text_to_a_port_for_tls_is_an_outage_with_a_hint(closed: Closed, opened: Opened) -> None:
    hint = "TLS is spoken on one side alone"
    plain = opened(closed.settings(NOTIFIER_KAFKA_CA=""))
    in_time(LogUnavailable, hint, plain.pending)
    in_time(StoreUnavailable, hint, opened(closed.settings(NOTIFIER_CASSANDRA_CA="")).migrate)
    url = closed.url().replace("rediss://", "redis://").partition("?")[0]
    in_time(CacheUnavailable, "doesn.t answer", opened(closed.settings(NOTIFIER_REDIS_URL=url)).require_services)
    # And TLS to one for plain text.
    url = closed.url().replace(f":{closed.redis}/", f":{closed.plain}/")
    in_time(CacheUnavailable, "doesn.t answer", opened(closed.settings(NOTIFIER_REDIS_URL=url)).require_services)


@pytest.mark.parametrize("wrong", [{}, {"NOTIFIER_KAFKA_PASSWORD": WRONG, "NOTIFIER_CASSANDRA_PASSWORD": WRONG}])
def test_what_the_settings_and_the_doctor_tell_has_no_password(closed: Closed, wrong: dict[str, str]) -> None:
    environment = {**os.environ, **closed.environment(**wrong), "NOTIFIER_LOG_LEVEL": "debug"}
    for words in (["settings"], ["doctor"], ["doctor", "--json"]):
        done = subprocess.run(
            [sys.executable, "-m", "notifier", *words], env=environment, capture_output=True, text=True, check=False
        )
        assert PASSWORD not in done.stdout + done.stderr
        assert WRONG not in done.stdout + done.stderr
        assert "settings" in words or "kafka" in done.stdout, done.stderr
        assert ("refuses the user" in done.stdout) == (bool(wrong) and "settings" not in words)
