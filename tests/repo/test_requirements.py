"""The pins: complete, hashed, consistent with pyproject.toml, and without addresses."""

import re
from collections.abc import Collection
from importlib.metadata import requires
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from benchmarks.inbox.stream_framework_comparison import ENVIRONMENT as FEED_PAGE_ENVIRONMENT
from benchmarks.peers.registry import PEERS
from benchmarks.push.other_libraries import RIVALS
from tests.repo.repository_files import ROOT, pyproject

PINS = ("run.txt", "dev.txt")
PEER_ENVIRONMENTS = (
    "build",
    "celery",
    "redis",
    "stream_framework",
    "stream_framework_page",
    "aioapns",
    "firebase_admin",
    "pywebpush",
)
PEER_FILES = tuple(f"{name}.txt" for name in PEER_ENVIRONMENTS)
PEER_PINS = ROOT / "benchmarks" / "peers" / "pins"
LOCKS_WITH_ADDRESSES = ("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "pylock.toml")
ADDRESS = re.compile(r"://|--(?:extra-)?index-url|--find-links|--trusted-host| @ ")


@pytest.mark.parametrize("file", [*PINS, *PEER_FILES])
def test_pins_contain_no_address(file: str) -> None:
    assert [line for line in text(file).splitlines() if ADDRESS.search(line)] == []


@pytest.mark.parametrize("file", [*PINS, *PEER_FILES])
def test_every_pin_has_a_hash(file: str) -> None:
    entries = re.split(r"\n(?=[a-z])", text(file))[1:]
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize("file", PINS)
def test_pins_satisfy_the_dependencies_of_the_project(file: str) -> None:
    project = pyproject()["project"]
    extras = chain.from_iterable(project["optional-dependencies"].values()) if file == "dev.txt" else ()
    pinned = pins(file)
    required = [Requirement(line) for line in (*project["dependencies"], *extras)]
    assert [
        str(requirement)
        for requirement in required
        if pinned.get(canonicalize_name(requirement.name), "0") not in requirement.specifier
    ] == []


def test_production_pins_include_all_transitive_dependencies() -> None:
    """Includes extras: a service that starts only because pytest is installed would fail in production."""
    pending = [Requirement(line) for line in pyproject()["project"]["dependencies"]]
    missing: set[str] = set()
    seen: set[str] = set()
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        if name not in pins("run.txt"):
            missing.add(name)
        elif str(requirement) not in seen:
            seen.add(str(requirement))
            pending += [
                dependency
                for dependency in map(Requirement, requires(name) or ())
                if applies(dependency, requirement.extras)
            ]
    assert missing == set()
    assert "packaging" in {canonicalize_name(Requirement(line).name) for line in seen}


def applies(requirement: Requirement, extras: Collection[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def test_dev_pins_equal_production_pins() -> None:
    assert pins("run.txt").items() <= pins("dev.txt").items()


def test_every_peer_environment_has_pins_and_their_source() -> None:
    pins = {path.name for path in PEER_PINS.glob("*.txt")}
    assert pins == set(PEER_FILES)
    assert {path.stem for path in (ROOT / "requirements" / "peers").glob("*.in")} == {Path(name).stem for name in pins}
    environments = {*(peer.environment for peer in (*PEERS, *RIVALS)), FEED_PAGE_ENVIRONMENT, "build"}
    assert {f"{name}.txt" for name in environments} == pins


def test_peer_feed_page_runs_on_the_server_versions_of_production() -> None:
    server = ("granian", "litestar", "msgspec")
    our_pins, peer_pins = pins("run.txt"), pins(f"{FEED_PAGE_ENVIRONMENT}.txt")
    assert {name: peer_pins[name] for name in server} == {name: our_pins[name] for name in server}


def test_lock_files_with_addresses_are_absent() -> None:
    assert [name for name in LOCKS_WITH_ADDRESSES if (ROOT / name).exists()] == []


def text(file: str) -> str:
    return ((PEER_PINS if file in PEER_FILES else ROOT / "requirements") / file).read_text(encoding="utf-8")


def pins(file: str) -> dict[str, str]:
    lines = re.findall(r"^([\w.-]+)==(\S+)", text(file), flags=re.MULTILINE)
    return {canonicalize_name(name): version for name, version in lines}
