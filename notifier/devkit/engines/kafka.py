"""Kafka brokers as engines: writes their settings and formats their folders quickly."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from notifier.devkit.engines.engine_process import SCRATCH_FOLDER, Engine, Security, free_port
from notifier.devkit.engines.maven import jars
from notifier.domain.errors import UnusableEnvironment

CONFIG_FOLDER = Path(__file__).parent / "config" / "kafka"
HOST = "127.0.0.1"
HEAP = "384m"
CLUSTER_ID = "bm90aWZpZXItY2x1c3Rlcg"
"""Cluster id: any 16 bytes in URL-safe Base64."""
CHECKPOINT_FILE = "bootstrap.checkpoint"
"""File with the initial metadata of a cluster. Its content depends on the Kafka version and the users only."""


SECURITY_SETTINGS = """
# These replace earlier entries of the same names.
listeners=SASL_SSL://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=SASL_SSL://{host}:{port}
inter.broker.listener.name=SASL_SSL
listener.security.protocol.map=CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL
sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={kafka}.scram.ScramLoginModule required;
listener.name.sasl_ssl.plain.sasl.jaas.config={kafka}.plain.PlainLoginModule required username="{user}" \
  password="{password}" user_{user}="{password}";
ssl.keystore.type=PEM
ssl.keystore.location={certificate}
ssl.truststore.type=PEM
ssl.truststore.location={ca}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _BrokerLocation:
    node: int
    port: int
    controller_port: int
    folder: Path
    proxy_port: int | None = None
    """Port that is advertised to clients. None: the broker's own."""

    @property
    def data(self) -> Path:
        return self.folder / "log"


def broker(
    folder: Path, cache: Path, *, port: int, security: Security | None = None, proxy_port: int | None = None
) -> Engine:
    """Return a single broker that is its own cluster. Raises UnusableEnvironment if its jars are unavailable."""
    location = _BrokerLocation(node=1, port=port, controller_port=free_port(), folder=folder, proxy_port=proxy_port)
    return _cluster([location], cache, security)[0]


def brokers(folder: Path, cache: Path, ports: Sequence[int]) -> list[Engine]:
    """Return a cluster with one broker per port. With three brokers, acknowledged records survive the loss of one."""
    locations = [
        _BrokerLocation(node=node, port=port, controller_port=free_port(), folder=folder / str(node))
        for node, port in enumerate(ports, 1)
    ]
    return _cluster(locations, cache)


def _cluster(locations: Sequence[_BrokerLocation], cache: Path, security: Security | None = None) -> list[Engine]:
    lib = jars(CONFIG_FOLDER / "pom.xml", cache)
    voters = ",".join(f"{location.node}@{HOST}:{location.controller_port}" for location in locations)
    return [_engine(location, lib, voters, len(locations), security) for location in locations]


def _engine(location: _BrokerLocation, lib: Path, voters: str, replicas: int, security: Security | None) -> Engine:
    location.data.mkdir(parents=True, exist_ok=True)
    settings = location.folder / "server.properties"
    settings.touch(mode=0o600)
    settings.write_text(
        _settings(location, voters, replicas) + (_security_settings(location, security) if security else "")
    )
    if not (location.data / CHECKPOINT_FILE).exists():
        if security:
            _format_with_user(lib, settings, security)
        else:
            _format(location, lib, settings)
    return Engine(
        name=f"kafka-{location.node}",
        command=[*_java(lib), f"-Djava.io.tmpdir={location.folder / SCRATCH_FOLDER}", "kafka.Kafka", str(settings)],
        folder=location.folder,
        host=HOST,
        port=location.port,
    )


def _settings(location: _BrokerLocation, voters: str, replicas: int) -> str:
    text = (CONFIG_FOLDER / "server.properties").read_text()
    placeholders = {
        "NODE": location.node,
        "VOTERS": voters,
        "PORT": location.port,
        "ADVERTISED": location.proxy_port or location.port,
        "CONTROLLER": location.controller_port,
        "DATA": location.data,
        "REPLICAS": replicas,
        "INSYNC": (replicas + 1) // 2,
    }
    for name, value in placeholders.items():
        text = text.replace(f"@{name}@", str(value))
    return text


def _security_settings(location: _BrokerLocation, security: Security) -> str:
    return SECURITY_SETTINGS.format(
        host=HOST,
        port=location.port,
        controller=location.controller_port,
        kafka="org.apache.kafka.common.security",
        user=security.user,
        password=security.password,
        certificate=security.certificate,
        ca=security.ca,
    )


def _format(location: _BrokerLocation, lib: Path, settings: Path) -> None:
    """Format the folder with Kafka's tool, or with a copy of its earlier output, which saves the start of a JVM."""
    template = lib / CHECKPOINT_FILE
    if not template.exists():
        _run_format_tool(lib, settings)
        shutil.copy(location.data / CHECKPOINT_FILE, template)
        return
    # Copy the checkpoint last: it marks the folder as formatted.
    (location.data / "meta.properties").write_text(
        f"version=1\nnode.id={location.node}\ncluster.id={CLUSTER_ID}\ndirectory.id={_directory_id(location.node)}\n"
    )
    shutil.copy(template, location.data / CHECKPOINT_FILE)


def _format_with_user(lib: Path, settings: Path, security: Security) -> None:
    """Format the folder with Kafka's tool, because the initial metadata contains the user."""
    user = f"SCRAM-SHA-512=[name={security.user},password={security.password}]"
    _run_format_tool(lib, settings, "--add-scram", user)


def _run_format_tool(lib: Path, settings: Path, *options: str) -> None:
    command = [*_java(lib), "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(settings), *options]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise UnusableEnvironment(f"Can't format the folder of Kafka: {result.stderr.strip() or result.stdout.strip()}")


def _directory_id(node: int) -> str:
    """Return the directory id of a broker: 16 bytes, unique per broker."""
    return f"{CLUSTER_ID[:-4]}{node:03}A"


def _java(lib: Path) -> list[str]:
    return [
        "java",
        f"-Xms{HEAP}",
        f"-Xmx{HEAP}",
        "-XX:+UseSerialGC",
        # Starts a second sooner, but has a tenth less throughput. Tests start many brokers.
        "-XX:TieredStopAtLevel=1",
        "-XX:+PerfDisableSharedMem",
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={CONFIG_FOLDER / 'log4j2.properties'}",
        "-Dlog4j2.disable.jmx=true",
        "-cp",
        f"{lib}/*",
    ]
