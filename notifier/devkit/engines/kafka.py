"""Kafka brokers as engines: writes their settings and formats their folders quickly."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from notifier.devkit.engines.engine import SCRATCH, Engine, Security, free_port
from notifier.devkit.engines.maven import jars
from notifier.domain.errors import Environment

HERE = Path(__file__).parent / "config" / "kafka"
HOST = "127.0.0.1"
HEAP = "384m"
CLUSTER = "bm90aWZpZXItY2x1c3Rlcg"
"""Cluster id: any 16 bytes in URL-safe Base64."""
FORMATTED = "bootstrap.checkpoint"
"""Initial metadata of a cluster. It is the same for all clusters that one version of Kafka formats."""


SECURED = """
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
    """Location of one broker of a cluster."""

    node: int
    port: int
    controller: int
    folder: Path
    proxy_port: int | None = None
    """Port to advertise to clients, if it is not the broker's own."""

    @property
    def data(self) -> Path:
        return self.folder / "log"


def broker(
    folder: Path, cache: Path, *, port: int, security: Security | None = None, front: int | None = None
) -> Engine:
    """Return a single broker that is its own cluster. Raises Environment if its jars are unavailable."""
    place = _BrokerLocation(node=1, port=port, controller=free_port(), folder=folder, proxy_port=front)
    return _cluster([place], cache, security)[0]


def brokers(folder: Path, cache: Path, ports: Sequence[int]) -> list[Engine]:
    """Return a cluster with one broker per port. Records acknowledged by a majority survive the loss of the others."""
    places = [
        _BrokerLocation(node=node, port=port, controller=free_port(), folder=folder / str(node))
        for node, port in enumerate(ports, 1)
    ]
    return _cluster(places, cache)


def _cluster(places: Sequence[_BrokerLocation], cache: Path, security: Security | None = None) -> list[Engine]:
    lib = jars(HERE / "pom.xml", cache)
    voters = ",".join(f"{place.node}@{HOST}:{place.controller}" for place in places)
    return [_engine(place, lib, voters, len(places), security) for place in places]


def _engine(place: _BrokerLocation, lib: Path, voters: str, replicas: int, security: Security | None) -> Engine:
    place.data.mkdir(parents=True, exist_ok=True)
    settings = place.folder / "server.properties"
    settings.touch(mode=0o600)
    settings.write_text(_settings(place, voters, replicas) + (_secured(place, security) if security else ""))
    if not (place.data / FORMATTED).exists():
        if security:
            _format_with_user(lib, settings, security)
        else:
            _format(place, lib, settings)
    return Engine(
        name=f"kafka-{place.node}",
        command=[*_java(lib), f"-Djava.io.tmpdir={place.folder / SCRATCH}", "kafka.Kafka", str(settings)],
        folder=place.folder,
        host=HOST,
        port=place.port,
    )


def _settings(place: _BrokerLocation, voters: str, replicas: int) -> str:
    text = (HERE / "server.properties").read_text()
    placeholders = {
        "NODE": place.node,
        "VOTERS": voters,
        "PORT": place.port,
        "FRONT": place.proxy_port or place.port,
        "CONTROLLER": place.controller,
        "DATA": place.data,
        "REPLICAS": replicas,
        "INSYNC": (replicas + 1) // 2,
    }
    for name, value in placeholders.items():
        text = text.replace(f"@{name}@", str(value))
    return text


def _secured(place: _BrokerLocation, security: Security) -> str:
    return SECURED.format(
        host=HOST,
        port=place.port,
        controller=place.controller,
        kafka="org.apache.kafka.common.security",
        user=security.user,
        password=security.password,
        certificate=security.certificate,
        ca=security.ca,
    )


def _format(place: _BrokerLocation, lib: Path, settings: Path) -> None:
    """Format the folder with Kafka's tool, or with a copy of its earlier output, which saves two JVM starts."""
    template = lib / FORMATTED
    if not template.exists():
        _by_tool(lib, settings)
        shutil.copy(place.data / FORMATTED, template)
        return
    # Copy the checkpoint last: it marks the folder as formatted.
    (place.data / "meta.properties").write_text(
        f"version=1\nnode.id={place.node}\ncluster.id={CLUSTER}\ndirectory.id={_directory(place.node)}\n"
    )
    shutil.copy(template, place.data / FORMATTED)


def _format_with_user(lib: Path, settings: Path, security: Security) -> None:
    """Format the folder with Kafka's tool. The initial metadata has the user, so it cannot be reused."""
    user = f"SCRAM-SHA-512=[name={security.user},password={security.password}]"
    _by_tool(lib, settings, "--add-scram", user)


def _by_tool(lib: Path, settings: Path, *more: str) -> None:
    command = [*_java(lib), "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(settings), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Environment(f"Can't format the folder of Kafka: {done.stderr.strip() or done.stdout.strip()}")


def _directory(node: int) -> str:
    """Return the directory id of a broker: 16 bytes, unique per broker."""
    return f"{CLUSTER[:-4]}{node:03}A"


def _java(lib: Path) -> list[str]:
    return [
        "java",
        f"-Xms{HEAP}",
        f"-Xmx{HEAP}",
        "-XX:+UseSerialGC",
        # Starts sooner. For a test one second matters more than a tenth of the throughput.
        "-XX:TieredStopAtLevel=1",
        "-XX:+PerfDisableSharedMem",
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}",
        "-Dlog4j2.disable.jmx=true",
        "-cp",
        f"{lib}/*",
    ]
