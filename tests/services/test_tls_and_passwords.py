"""Kafka, Cassandra and Valkey behind TLS and passwords.

The Valkey of the wheel was built without TLS: a proxy of this test terminates TLS in front of that server.
"""

import asyncio
import logging
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from time import monotonic, sleep
from typing import TypeVar

import pytest

from notifier.adapters.cassandra import CassandraAccess, Cluster, security_options
from notifier.config import Settings
from notifier.devkit.engines.cassandra import Sync, node
from notifier.devkit.engines.engine_process import Security, free_port
from notifier.devkit.engines.kafka import broker
from notifier.devkit.engines.valkey import server
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.errors import (
    BadSetting,
    CacheUnavailable,
    LogUnavailable,
    NotifierError,
    QueueUnavailable,
    StoreUnavailable,
    UnusableEnvironment,
)
from notifier.ports.event_log_and_dead_letters import Record
from notifier.profiles import choose
from notifier.profiles.cluster import ClusterProfile
from notifier.topics import GROUPS, MENTIONS
from tests.contracts.test_sequence_heads import FIRST
from tests.services.tcp_proxy import tcp_proxy
from tests.support.cassandra_keyspace import ON_ENGINES
from tests.support.certificate_authority import Authority
from tests.support.contract_examples import NOVA
from tests.support.engines import WITHOUT_FLUSHES

pytestmark = [pytest.mark.thorough, *ON_ENGINES]

T = TypeVar("T")

USER, PASSWORD, WRONG = "notifier", "s3cr3t-Word", "wr0ng-Word"
STARTS_WITHIN = 120.0
"""Seconds, on a machine that is busy with other tests."""
GIVES_UP_WITHIN = 20.0
"""Seconds until a client has reported the error; the drivers would go on for half a minute or forever."""
FOLDERS = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class SecureEngines:
    """Engines that accept authenticated clients only."""

    folder: Path
    ca: Path
    other_ca: Path
    """Certificate of an authority that has signed none of them."""
    servers: str
    port: int
    plain_port: int
    """Port at which Valkey accepts plain text."""
    redis: int

    def url(self, *, user: str = USER, password: str = PASSWORD, ca: Path | None = None, query: str = "") -> str:
        return f"rediss://{user}:{password}@127.0.0.1:{self.redis}/0?ssl_ca_certs={ca or self.ca}{query}"

    def environment(self, **changes: str) -> dict[str, str]:
        """Return the environment of a known user, with these settings replaced."""
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
            **changes,
        }

    def settings(self, **changes: str) -> Settings:
        return Settings.read(self.environment(**changes))


@pytest.fixture(scope="module")
def secure_engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureEngines]:
    folder, cache = tmp_path_factory.mktemp("secure"), Settings.read({}).jars.expanduser()
    authority, other_authority = Authority.create(folder, "authority"), Authority.create(folder, "other")
    secure = Security(certificate=authority.server(), ca=authority.file, user=USER, password=PASSWORD)
    kafka = broker(folder / "kafka", cache, port=free_port(), security=secure)
    cassandra = node(folder / "cassandra", cache, port=free_port(), sync=Sync.PERIODIC, security=secure)
    valkey = server(folder / "valkey", port=free_port(), password=PASSWORD, user=USER)
    with ExitStack() as stack:
        stack.enter_context(cheap_password_hashes())
        for engine in (kafka, cassandra, valkey):
            stack.callback(engine.kill)
            engine.start()
        for engine in (kafka, cassandra, valkey):
            engine.wait_until_ready(STARTS_WITHIN)
        create_user(cassandra.port, authority.file)
        yield SecureEngines(
            folder=folder,
            ca=authority.file,
            other_ca=other_authority.file,
            servers=kafka.address,
            port=cassandra.port,
            plain_port=valkey.port,
            redis=stack.enter_context(tcp_proxy(valkey.port, certificate=secure.certificate)).port,
        )


@contextmanager
def cheap_password_hashes() -> Iterator[None]:
    """Let Cassandra hash passwords in 2^4 rounds instead of 2^10: it does so for every connection."""
    with pytest.MonkeyPatch.context() as patch:
        options = os.environ.get("JAVA_TOOL_OPTIONS", "")
        patch.setenv("JAVA_TOOL_OPTIONS", f"{options} {WITHOUT_FLUSHES} -Dcassandra.auth_bcrypt_gensalt_log2_rounds=4")
        yield


def create_user(port: int, ca: Path) -> None:
    """Create our user as the default user, which the node creates a moment after it listens."""
    default_user = security_options(user="cassandra", password="cassandra", ca_file=str(ca))
    deadline = monotonic() + STARTS_WITHIN
    while True:
        cluster = Cluster(
            CassandraAccess(hosts=["127.0.0.1"], port=port, keyspace="system", security_options=default_user)
        )
        try:
            statement = (
                f"CREATE ROLE IF NOT EXISTS {USER} WITH PASSWORD = '{PASSWORD}' AND LOGIN = true AND SUPERUSER = true"
            )
            cluster.execute(statement)
            return
        except (UnusableEnvironment, StoreUnavailable):
            if monotonic() > deadline:
                raise
            sleep(0.2)
        finally:
            cluster.close()


@pytest.fixture
def open_profile() -> Iterator[Callable[[Settings], ClusterProfile]]:
    with ExitStack() as stack:

        def choose_profile(settings: Settings) -> ClusterProfile:
            profile = choose(settings)
            assert isinstance(profile, ClusterProfile)
            stack.callback(profile.close)
            return profile

        yield choose_profile


OpenProfile = Callable[[Settings], ClusterProfile]


def assert_error(error: type[NotifierError], message: str, call: Callable[[], object]) -> None:
    """Check that the call fails soon with this error, and that no password is in it or in any of its causes."""
    began = monotonic()
    with pytest.raises(error, match=message) as caught:
        call()
    assert monotonic() - began < GIVES_UP_WITHIN
    text = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert PASSWORD not in text
    assert WRONG not in text


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", pytest.param("PLAIN", marks=pytest.mark.prove)])
def test_known_user_migrates_writes_and_reads_on_all_engines(
    secure_engines: SecureEngines, open_profile: OpenProfile, caplog: pytest.LogCaptureFixture, mechanism: str
) -> None:
    caplog.set_level(logging.DEBUG)
    settings = secure_engines.settings(NOTIFIER_KAFKA_MECHANISM=mechanism)
    profile = open_profile(settings)
    profile.migrate()
    profile.ensure_schema()
    profile.require_log()
    assert list(profile.pending()) == []
    profile.require_services()
    ports = profile.ports()
    ports.log.append([Record(stream=MENTIONS, key="nova", value=b"written behind TLS")])
    reader = ports.log.subscribe(MENTIONS, GROUPS[MENTIONS], "router")
    try:
        records = next(polled for _ in range(20) if (polled := reader.poll(1, timedelta(seconds=1))))
    finally:
        reader.close()
    assert records[0].record.value == b"written behind TLS"
    ports.heads.compare_and_set([FIRST])
    assert ports.heads.load([NOVA]) == {NOVA: FIRST}
    since = FIRST.last_opened_at
    assert since is not None
    # The first of the two mechanisms finds an empty Valkey.
    assert patiently(ports.pull.generation) is None or mechanism != "SCRAM-SHA-512"
    patiently(lambda: ports.pull.rebuild([], since, since))
    assert patiently(ports.pull.generation) is not None
    assert patiently(lambda: asyncio.run(pull_index_places(profile))) == 0
    assert {patiently(partial(ports.queue.depth, pool)) for pool in Pool} == {0}
    assert PASSWORD not in caplog.text
    assert PASSWORD not in repr(settings) + repr(profile.__dict__) + repr(ports)


def patiently(call: Callable[[], T]) -> T:
    """Retry the call: half a second for a handshake is little for a Python proxy on a busy machine."""
    deadline = monotonic() + STARTS_WITHIN
    while True:
        try:
            return call()
        except (CacheUnavailable, QueueUnavailable):
            if monotonic() > deadline:
                raise
            sleep(0.5)


async def pull_index_places(profile: ClusterProfile) -> int:
    try:
        return len((await profile.read_ports().pull.read_newest([NOVA])).positions)
    finally:
        await profile.close_reads()


def test_wrong_password_is_reported_at_once(secure_engines: SecureEngines, open_profile: OpenProfile) -> None:
    kafka = open_profile(secure_engines.settings(NOTIFIER_KAFKA_PASSWORD=WRONG))
    assert_error(UnusableEnvironment, "Kafka at .* rejects the user", kafka.pending)
    plain = open_profile(secure_engines.settings(NOTIFIER_KAFKA_PASSWORD=WRONG, NOTIFIER_KAFKA_MECHANISM="PLAIN"))
    assert_error(UnusableEnvironment, "Kafka at .* rejects the user", plain.pending)
    cassandra = open_profile(secure_engines.settings(NOTIFIER_CASSANDRA_PASSWORD=WRONG))
    assert_error(UnusableEnvironment, "Cassandra at .* rejects the user", cassandra.ensure_schema)
    redis = open_profile(secure_engines.settings(NOTIFIER_REDIS_URL=secure_engines.url(password=WRONG)))
    assert_error(CacheUnavailable, "AuthenticationError", redis.require_services)
    assert_error(QueueUnavailable, "invalid username-password", lambda: redis.ports().queue.depth(Pool.P0))


def test_missing_user_is_refused(secure_engines: SecureEngines, open_profile: OpenProfile) -> None:
    anonymous = {"NOTIFIER_KAFKA_USER": "", "NOTIFIER_KAFKA_PASSWORD": ""}
    assert_error(
        UnusableEnvironment, "Kafka at .* rejects the user", open_profile(secure_engines.settings(**anonymous)).pending
    )
    cassandra = open_profile(secure_engines.settings(NOTIFIER_CASSANDRA_USER=""))
    assert_error(UnusableEnvironment, "Cassandra at .* requires credentials", cassandra.ensure_schema)


def test_certificate_of_other_authority_is_refused(secure_engines: SecureEngines, open_profile: OpenProfile) -> None:
    other_ca = str(secure_engines.other_ca)
    assert_error(
        UnusableEnvironment,
        "certificate of Kafka at",
        open_profile(secure_engines.settings(NOTIFIER_KAFKA_CA=other_ca)).pending,
    )
    assert_error(
        UnusableEnvironment,
        "certificate of Cassandra at",
        open_profile(secure_engines.settings(NOTIFIER_CASSANDRA_CA=other_ca)).ensure_schema,
    )
    redis = open_profile(secure_engines.settings(NOTIFIER_REDIS_URL=secure_engines.url(ca=secure_engines.other_ca)))
    assert_error(CacheUnavailable, "certificate verify failed", redis.require_services)
    assert_error(QueueUnavailable, "certificate verify failed", lambda: redis.ports().queue.depth(Pool.P0))


def test_celery_verifies_certificates_by_default(secure_engines: SecureEngines, open_profile: OpenProfile) -> None:
    """Its library would not, for an address that only begins with rediss."""
    bare = f"rediss://{USER}:{PASSWORD}@127.0.0.1:{secure_engines.redis}/0"
    profile = open_profile(secure_engines.settings(NOTIFIER_REDIS_URL=bare))
    assert_error(QueueUnavailable, "certificate verify failed", lambda: profile.ports().queue.depth(Pool.P0))


@pytest.mark.parametrize("name", ["NOTIFIER_KAFKA_CA", "NOTIFIER_CASSANDRA_CA"])
@pytest.mark.parametrize("content", [None, "no certificate"])
def test_unreadable_ca_certificate_is_a_bad_setting(
    secure_engines: SecureEngines, open_profile: OpenProfile, tmp_path: Path, name: str, content: str | None
) -> None:
    ca = tmp_path / "ca.pem"
    if content is not None:
        ca.write_text(content)
    assert_error(
        BadSetting,
        r"CA certificate .*/ca\.pem: ",
        lambda: open_profile(secure_engines.settings(**{name: str(ca)})),
    )


def test_plain_text_to_tls_port_is_an_outage_with_hint(
    secure_engines: SecureEngines, open_profile: OpenProfile
) -> None:
    hint = "only one side uses TLS"
    kafka = open_profile(secure_engines.settings(NOTIFIER_KAFKA_CA=""))
    assert_error(LogUnavailable, hint, kafka.pending)
    assert_error(StoreUnavailable, hint, open_profile(secure_engines.settings(NOTIFIER_CASSANDRA_CA="")).migrate)
    url = secure_engines.url().replace("rediss://", "redis://").partition("?")[0]
    assert_error(
        CacheUnavailable,
        "doesn.t answer",
        open_profile(secure_engines.settings(NOTIFIER_REDIS_URL=url)).require_services,
    )
    # The reverse: TLS to a port for plain text.
    url = secure_engines.url().replace(f":{secure_engines.redis}/", f":{secure_engines.plain_port}/")
    assert_error(
        CacheUnavailable,
        "doesn.t answer",
        open_profile(secure_engines.settings(NOTIFIER_REDIS_URL=url)).require_services,
    )


@pytest.mark.parametrize(
    "wrong_passwords",
    [
        pytest.param({}, marks=pytest.mark.prove),
        {"NOTIFIER_KAFKA_PASSWORD": WRONG, "NOTIFIER_CASSANDRA_PASSWORD": WRONG},
    ],
)
def test_settings_and_doctor_print_no_password(secure_engines: SecureEngines, wrong_passwords: dict[str, str]) -> None:
    environment = {**os.environ, **secure_engines.environment(**wrong_passwords), "NOTIFIER_LOG_LEVEL": "debug"}
    # With the right passwords, the doctor measures for some seconds: once is enough, as lines and JSON have one source.
    for arguments in (["settings"], ["doctor"], *([["doctor", "--json"]] if wrong_passwords else [])):
        result = subprocess.run(
            [sys.executable, "-m", "notifier", *arguments], env=environment, capture_output=True, text=True, check=False
        )
        assert PASSWORD not in result.stdout + result.stderr
        assert WRONG not in result.stdout + result.stderr
        assert "settings" in arguments or "kafka" in result.stdout, result.stderr
        assert ("rejects the user" in result.stdout) == (bool(wrong_passwords) and "settings" not in arguments)
