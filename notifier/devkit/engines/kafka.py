"""A Kafka broker as an engine: its settings written, its folder formatted as Kafka's own tool would, in no time."""

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
"""The cluster's id: any 16 bytes in Base64 for URLs."""
FORMATTED = "bootstrap.checkpoint"
"""What a cluster knows before its first record; the same for each that is formatted by the same version."""


SECURED = """
# The last of two that say something wins.
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
class _Place:
    """Where one broker of several lives."""

    node: int
    port: int
    controller: int
    folder: Path
    front: int | None = None
    """The port that it tells its clients of, where that isn't its own."""

    @property
    def data(self) -> Path:
        return self.folder / "log"


def broker(
    folder: Path, cache: Path, *, port: int, security: Security | None = None, front: int | None = None
) -> Engine:
    """One that is all of its cluster. Raises Environment when its jars can't be had."""
    place = _Place(node=1, port=port, controller=free_port(), folder=folder, front=front)
    return _cluster([place], cache, security)[0]


def brokers(folder: Path, cache: Path, ports: Sequence[int]) -> list[Engine]:
    """As many as there are ports; what most of them have acknowledged survives the loss of any of the others."""
    places = [
        _Place(node=node, port=port, controller=free_port(), folder=folder / str(node))
        for node, port in enumerate(ports, 1)
    ]
    return _cluster(places, cache)


def _cluster(places: Sequence[_Place], cache: Path, security: Security | None = None) -> list[Engine]:
    lib = jars(HERE / "pom.xml", cache)
    voters = ",".join(f"{one.node}@{HOST}:{one.controller}" for one in places)
    return [_engine(one, lib, voters, len(places), security) for one in places]


def _engine(place: _Place, lib: Path, voters: str, replicas: int, security: Security | None) -> Engine:
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


def _settings(place: _Place, voters: str, replicas: int) -> str:
    text = (HERE / "server.properties").read_text()
    words = {
        "NODE": place.node,
        "VOTERS": voters,
        "PORT": place.port,
        "FRONT": place.front or place.port,
        "CONTROLLER": place.controller,
        "DATA": place.data,
        "REPLICAS": replicas,
        "INSYNC": (replicas + 1) // 2,
    }
    for word, value in words.items():
        text = text.replace(f"@{word}@", str(value))
    return text


def _secured(place: _Place, security: Security) -> str:
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


def _format(place: _Place, lib: Path, settings: Path) -> None:
    """By Kafka's own tool the first time; later by a copy of what it made, which saves two starts of a JVM."""
    made = lib / FORMATTED
    if not made.exists():
        _by_tool(lib, settings)
        shutil.copy(place.data / FORMATTED, made)
        return
    # The mark that makes the folder a formatted one comes last.
    (place.data / "meta.properties").write_text(
        f"version=1\nnode.id={place.node}\ncluster.id={CLUSTER}\ndirectory.id={_directory(place.node)}\n"
    )
    shutil.copy(made, place.data / FORMATTED)


def _format_with_user(lib: Path, settings: Path, security: Security) -> None:
    """What a cluster knows before its first record is its user, too, and no other cluster's."""
    user = f"SCRAM-SHA-512=[name={security.user},password={security.password}]"
    _by_tool(lib, settings, "--add-scram", user)


def _by_tool(lib: Path, settings: Path, *more: str) -> None:
    command = [*_java(lib), "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(settings), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Environment(f"Kafka's folder can't be formatted: {done.stderr.strip() or done.stdout.strip()}")


def _directory(node: int) -> str:
    """A directory's id is 16 bytes of its own, too."""
    return f"{CLUSTER[:-4]}{node:03}A"


def _java(lib: Path) -> list[str]:
    return [
        "java",
        f"-Xms{HEAP}",
        f"-Xmx{HEAP}",
        "-XX:+UseSerialGC",
        # It starts sooner and is quick enough: a second is more to a test than a tenth of the throughput.
        "-XX:TieredStopAtLevel=1",
        "-XX:+PerfDisableSharedMem",
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}",
        "-Dlog4j2.disable.jmx=true",
        "-cp",
        f"{lib}/*",
    ]
