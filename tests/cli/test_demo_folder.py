"""`notifier demo --keep` and `--fresh`: interrupted loads, foreign folders and folders in use."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from signal import SIGINT, SIGKILL

import pytest

from notifier.cli.commands.demo_browser import demo_users
from notifier.cli.commands.demo_folder_cleanup import remove_demo_data
from notifier.config import Settings
from notifier.devkit.fixture.world import World
from notifier.profiles.embedded import EmbeddedProfile
from tests.browser.demo_process_and_visit import demo
from tests.cli.conftest import Notifier
from tests.cli.running_service import GONE_WITHIN, STARTS_WITHIN, until

OTHER_WORLD = json.dumps(asdict(World(universe=2, followers=1, celebrities=1, seed=1)))
"""The `demo.json` of another world."""
MANY_FOLLOWERS = 30_000_000
"""So many that the load can be interrupted before it ends."""
SMALL_DEMO = ["--followers", "300000", "--port", "0", "--no-open"]


def refused(notifier: Notifier, *options: str) -> str:
    result = notifier("demo", *SMALL_DEMO, *options)
    assert result.exit_code == 3, result.stdout
    return result.stderr


@contextmanager
def started(*arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `notifier` in a process that never outlives the block; a process left behind slows down all later tests."""
    command = [sys.executable, "-m", "notifier", *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def interrupt_load(data: Path, signal: int) -> None:
    """Run a demo that is ended by the signal while it loads its world."""
    loading = data / "run" / "loading"
    with started(
        "demo", "--followers", str(MANY_FOLLOWERS), "--port", "0", "--no-open", "--keep", str(data)
    ) as process:
        until(lambda: loading.exists() or process.poll() is not None, STARTS_WITHIN)
        assert process.poll() is None, "the demo has ended"
        process.send_signal(signal)
        process.wait(GONE_WITHIN)
    assert not (data / "demo.json").exists(), "the load ended before it could be interrupted"
    assert (data / "demo.loading.json").exists()


@pytest.mark.prove
@pytest.mark.timeout(400)
def test_interrupted_load_restarts_and_is_kept(tmp_path: Path, notifier: Notifier) -> None:
    interrupt_load(tmp_path, SIGINT)
    assert not (tmp_path / "run" / "loading").exists()
    interrupt_load(tmp_path, SIGKILL)
    assert f"has --universe {MANY_FOLLOWERS} --followers {MANY_FOLLOWERS}" in refused(notifier, "--keep", str(tmp_path))
    outputs: list[str] = []
    with demo(tmp_path, outputs, followers=MANY_FOLLOWERS) as address:
        assert not (tmp_path / "demo.loading.json").exists()
        with urllib.request.urlopen(address) as response:
            assert b"<notifier-inbox" in response.read()
        assert_kept_while_running(tmp_path, address, notifier)
    assert "loaded again, because the last load was interrupted" in outputs[0]
    first_size = (tmp_path / "core.db").stat().st_size
    # As left by a process that was killed when the world became complete.
    (tmp_path / "run" / "loading").write_text("100")
    with (
        demo(tmp_path, outputs, followers=MANY_FOLLOWERS) as address,
        urllib.request.urlopen(f"{address}/readyz") as response,
    ):
        assert response.status == 200
        assert not (tmp_path / "run" / "loading").exists()
    assert "unchanged since the last run" in outputs[1]
    assert (tmp_path / "core.db").stat().st_size < 1.5 * first_size


def assert_kept_while_running(data: Path, address: str, notifier: Notifier) -> None:
    before = {path: path.stat().st_ino for path in data.glob("*.*")}
    assert "in use by another running notifier" in refused(notifier, "--keep", str(data), "--fresh")
    assert {path: path.stat().st_ino for path in data.glob("*.*")} == before
    with urllib.request.urlopen(f"{address}/readyz") as response:
        assert response.status == 200


@pytest.mark.timeout(400)
def test_fresh_follows_link_and_keeps_foreign_files(tmp_path: Path) -> None:
    kept, link, outputs = tmp_path / "kept", tmp_path / "link", list[str]()
    kept.mkdir()
    link.symlink_to(kept)
    interrupt_load(link, SIGKILL)
    first_secret = (kept / "secret.json").read_bytes() if (kept / "secret.json").exists() else b""
    (kept / "thesis.txt").write_text("years of work")
    with demo(link, outputs, "--fresh"):
        assert (kept / "secret.json").read_bytes() != first_secret
    assert "users, being loaded\n" in outputs[0]
    assert link.is_symlink()
    assert (kept / "thesis.txt").exists()
    remove_demo_data(kept)
    remaining = {path.relative_to(kept).as_posix() for path in kept.rglob("*") if path.is_file()}
    assert remaining == {"thesis.txt", "run/lock", "logs/forkserver.log"}, "a file that a demo makes is not in the list"


def test_folder_with_users_but_without_fixture_file_is_refused(tmp_path: Path, notifier: Notifier) -> None:
    arguments = [
        "fixture",
        "--followers",
        "300000",
        "--universe",
        "300000",
        "--celebrities",
        "1",
        "--data",
        str(tmp_path),
    ]
    assert notifier(*arguments).exit_code == 0
    (tmp_path / "fixture.json").unlink()
    assert "has users, but no fixture.json" in refused(notifier, "--keep", str(tmp_path))
    assert not (tmp_path / "demo.loading.json").exists()


def test_folder_with_another_world_is_unchanged(tmp_path: Path, notifier: Notifier) -> None:
    (tmp_path / "demo.json").write_text(OTHER_WORLD)
    assert "holds another world" in refused(notifier, "--keep", str(tmp_path))
    assert (tmp_path / "demo.json").read_text() == OTHER_WORLD


@pytest.mark.thorough
@pytest.mark.timeout(400)
def test_only_one_of_two_fresh_demos_starts(tmp_path: Path) -> None:
    (tmp_path / "demo.json").write_text(OTHER_WORLD)
    arguments = ["demo", *SMALL_DEMO, "--keep", str(tmp_path), "--fresh"]
    ready_files = [tmp_path / "demo.json", tmp_path / "run" / "ready.json"]
    with started(*arguments) as first, started(*arguments) as second:
        processes = [first, second]
        until(
            lambda: (
                all(path.exists() for path in ready_files) and any(process.poll() is not None for process in processes)
            ),
            STARTS_WITHIN,
        )
        winner = next(process for process in processes if process.poll() is None)
        winner.send_signal(SIGINT)
        errors = [process.communicate(timeout=GONE_WITHIN)[1] for process in processes]
    assert sorted(process.returncode for process in processes) == [0, 3]
    assert sum(b"in use by another" in process for process in errors) == 1
    assert json.loads((tmp_path / "demo.json").read_text())["universe"] == 300_000


def test_folder_in_use_is_refused(tmp_path: Path, notifier: Notifier) -> None:
    (tmp_path / "demo.json").write_text(OTHER_WORLD)
    (tmp_path / "core.db").touch()
    with EmbeddedProfile(Settings(data=tmp_path, redis_url="")).services():
        assert "in use by another running notifier" in refused(notifier, "--keep", str(tmp_path), "--fresh")
    assert (tmp_path / "core.db").exists()


@pytest.mark.parametrize("fresh", [(), ("--fresh",)])
def test_foreign_folder_is_unchanged(fresh: tuple[str, ...], tmp_path: Path, notifier: Notifier) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    message = refused(notifier, "--keep", str(tmp_path), *fresh)
    assert "isn't a notifier's" in message
    assert "thesis.txt" in message
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_demo_users_have_the_advertised_activity() -> None:
    """The numbers are those of the fixture's formulas for VIPs, idleness, mutes and devices."""
    world = World(universe=2_000_000, followers=2_000_000, celebrities=1, seed=1)
    vip, active, occasional, away = (int(name.removeprefix("u")) for name in demo_users(world))
    idle = [(member * 619 + 17) % 1000 for member in (vip, active, occasional, away)]
    assert vip % 9973 == 1
    assert all(member % 9973 != 1 for member in (active, occasional, away))
    assert idle[0] < 80
    assert idle[1] < 50
    assert 80 <= idle[2] < 250 <= idle[3]
    assert all((member + 1) % 211 for member in (vip, active, occasional, away))
    assert vip % 7 > 2
    assert all(member % 502 == 1 for member in (active, occasional, away))


def test_tiny_world_still_has_four_demo_users() -> None:
    assert len(demo_users(World(universe=10, followers=5, celebrities=1, seed=1))) == 4
