"""The pins: complete, hashed, in step with pyproject.toml, and silent about where packages are downloaded."""

import re
from collections.abc import Collection
from importlib.metadata import requires
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.inbox.stream_framework import ENVIRONMENT as FEED_PAGE
from benchmarks.peers.registry import PEERS as LINEUP
from benchmarks.push.other_libraries import RIVALS
from tests.repo.sources import ROOT, pyproject

PINS = ("run.txt", "dev.txt")
PEERS_PINS = (
    "build",
    "celery",
    "redis",
    "stream_framework",
    "stream_framework_page",
    "aioapns",
    "firebase_admin",
    "pywebpush",
)
OF_PEERS = tuple(f"{name}.txt" for name in PEERS_PINS)
PEERS = ROOT / "benchmarks" / "peers" / "pins"
LOCKS_WITH_ADDRESSES = ("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml")
ADDRESS = re.compile(r"://|--(?:extra-)?index-url|--find-links|--trusted-host| @ ")


@pytest.mark.parametrize("file", [*PINS, *OF_PEERS])
def test_pins_name_no_address(file: str) -> None:
    assert [line for line in text(file).splitlines() if ADDRESS.search(line)] == []


@pytest.mark.parametrize("file", [*PINS, *OF_PEERS])
def test_every_pin_has_a_hash(file: str) -> None:
    entries = re.split(r"\n(?=[a-z])", text(file))[1:]
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize("file", PINS)
def test_pins_satisfy_what_the_project_asks_for(file: str) -> None:
    project = pyproject()["project"]
    extras = chain.from_iterable(project["optional-dependencies"].values()) if file == "dev.txt" else ()
    found = pins(file)
    wanted = [Requirement(line) for line in (*project["dependencies"], *extras)]
    assert [str(each) for each in wanted if found.get(canonicalize_name(each.name), "0") not in each.specifier] == []


def test_pins_for_production_hold_what_every_package_asks_for_itself() -> None:
    """Also what an extra brings: a service that starts where pytest is installed might start nowhere else."""
    wanted = [Requirement(line) for line in pyproject()["project"]["dependencies"]]
    missing: set[str] = set()
    seen: set[str] = set()
    while wanted:
        each = wanted.pop()
        name = canonicalize_name(each.name)
        if name not in pins("run.txt"):
            missing.add(name)
        elif str(each) not in seen:
            seen.add(str(each))
            wanted += [more for more in map(Requirement, requires(name) or ()) if applies(more, each.extras)]
    assert missing == set()
    assert "packaging" in {canonicalize_name(Requirement(each).name) for each in seen}


def applies(requirement: Requirement, extras: Collection[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def test_checks_run_on_what_production_runs_on() -> None:
    assert pins("run.txt").items() <= pins("dev.txt").items()


def test_every_environment_of_a_peer_has_pins_and_what_they_are_made_from() -> None:
    pins = {path.name for path in PEERS.glob("*.txt")}
    assert pins == set(OF_PEERS)
    assert {path.stem for path in (ROOT / "requirements" / "peers").glob("*.in")} == {Path(name).stem for name in pins}
    environments = {*(peer.environment for peer in (*LINEUP, *RIVALS)), FEED_PAGE, "build"}
    assert {f"{name}.txt" for name in environments} == pins


def test_feed_page_of_a_peer_runs_on_the_servers_versions() -> None:
    server = ("granian", "litestar", "msgspec")
    ours, its = pins("run.txt"), pins(f"{FEED_PAGE}.txt")
    assert {name: its[name] for name in server} == {name: ours[name] for name in server}


def test_there_is_no_lock_file_with_addresses() -> None:
    assert [name for name in LOCKS_WITH_ADDRESSES if (ROOT / name).exists()] == []


def text(file: str) -> str:
    return ((PEERS if file in OF_PEERS else ROOT / "requirements") / file).read_text(encoding="utf-8")


def pins(file: str) -> dict[str, str]:
    found = re.findall(r"^([\w.-]+)==(\S+)", text(file), flags=re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}
