"""`notifier demo` as one meets it first: five lines, a page that answers, a folder that is remembered, a clean end."""

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

from notifier.cli.commands.demo_browser import people
from notifier.cli.data_folder import forget
from notifier.config import Settings
from notifier.devkit.fixture.world import World
from notifier.profiles.embedded import Embedded
from tests.browser.demo import demo
from tests.cli.conftest import Notifier
from tests.cli.running import GONE_WITHIN, STARTS_WITHIN, until

OTHERS = json.dumps(asdict(World(universe=2, followers=1, celebrities=1, seed=1)))
"""The note of another world."""
LARGE = 60_000_000
"""Followers: so many are not loaded before somebody who watches can cut that off."""
SMALL = ["--followers", "300000", "--port", "0", "--no-open"]


def refused(notifier: Notifier, *words: str) -> str:
    done = notifier("demo", *SMALL, *words)
    assert done.exit_code == 3, done.stdout
    return done.stderr


@contextmanager
def begun(*words: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `notifier` in a process that never outlives the block: one left behind slows down all later tests."""
    command = [sys.executable, "-m", "notifier", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def cut_off(data: Path, signal: int) -> None:
    """A demo that ends while it loads its world."""
    loading = data / "run" / "loading"
    with begun("demo", "--followers", str(LARGE), "--port", "0", "--no-open", "--keep", str(data)) as process:
        until(lambda: loading.exists() or process.poll() is not None, STARTS_WITHIN)
        assert process.poll() is None, "the demo has ended"
        process.send_signal(signal)
        process.wait(GONE_WITHIN)
    assert not (data / "demo.json").exists(), "it was whole before it could be cut off"
    assert (data / "demo.loading.json").exists()


@pytest.mark.timeout(400)
def test_a_load_that_was_cut_off_is_done_anew_and_then_remembered(tmp_path: Path, notifier: Notifier) -> None:
    cut_off(tmp_path, SIGINT)
    assert not (tmp_path / "run" / "loading").exists()
    cut_off(tmp_path, SIGKILL)
    assert f"has --universe {LARGE} --followers {LARGE}" in refused(notifier, "--keep", str(tmp_path))
    said: list[str] = []
    with demo(tmp_path, said, followers=LARGE) as address:
        assert not (tmp_path / "demo.loading.json").exists()
        with urllib.request.urlopen(address) as answer:
            assert b"<notifier-inbox" in answer.read()
        is_not_thrown_away_while_it_runs(tmp_path, address, notifier)
    assert "loaded anew, because the last time it was cut off" in said[0]
    first = (tmp_path / "core.db").stat().st_size
    (tmp_path / "run" / "loading").write_text("100")  # as of one who was killed when the world became whole
    with demo(tmp_path, said, followers=LARGE) as address, urllib.request.urlopen(f"{address}/readyz") as answer:
        assert answer.status == 200
        assert not (tmp_path / "run" / "loading").exists()
    assert "as you left them" in said[1]
    assert (tmp_path / "core.db").stat().st_size < 1.5 * first


def is_not_thrown_away_while_it_runs(data: Path, address: str, notifier: Notifier) -> None:
    before = {path: path.stat().st_ino for path in data.glob("*.*")}
    assert "in use by another running notifier" in refused(notifier, "--keep", str(data), "--fresh")
    assert {path: path.stat().st_ino for path in data.glob("*.*")} == before
    with urllib.request.urlopen(f"{address}/readyz") as answer:
        assert answer.status == 200


@pytest.mark.timeout(400)
def test_fresh_goes_by_a_link_into_a_world_that_was_cut_off_and_leaves_what_is_beside(tmp_path: Path) -> None:
    kept, link, said = tmp_path / "kept", tmp_path / "link", list[str]()
    kept.mkdir()
    link.symlink_to(kept)
    cut_off(link, SIGKILL)
    first = (kept / "secret.json").read_bytes() if (kept / "secret.json").exists() else b""
    (kept / "thesis.txt").write_text("years of work")
    with demo(link, said, "--fresh"):
        assert (kept / "secret.json").read_bytes() != first
    assert "people, being loaded\n" in said[0]
    assert link.is_symlink()
    assert (kept / "thesis.txt").exists()
    forget(kept)
    left = {path.relative_to(kept).as_posix() for path in kept.rglob("*") if path.is_file()}
    assert left == {"thesis.txt", "run/lock"}, "not all that a demo makes is in the list"


def test_a_folder_with_people_of_whom_there_is_no_note_is_refused(tmp_path: Path, notifier: Notifier) -> None:
    words = ["fixture", "--followers", "300000", "--universe", "300000", "--celebrities", "1", "--data", str(tmp_path)]
    assert notifier(*words).exit_code == 0
    (tmp_path / "fixture.json").unlink()
    assert "has people, and no fixture.json" in refused(notifier, "--keep", str(tmp_path))
    assert not (tmp_path / "demo.loading.json").exists()


def test_a_folder_with_another_world_is_left_as_it_is(tmp_path: Path, notifier: Notifier) -> None:
    (tmp_path / "demo.json").write_text(OTHERS)
    assert "holds another world" in refused(notifier, "--keep", str(tmp_path))
    assert (tmp_path / "demo.json").read_text() == OTHERS


@pytest.mark.timeout(400)
def test_of_two_that_begin_anew_at_once_one_does(tmp_path: Path) -> None:
    (tmp_path / "demo.json").write_text(OTHERS)
    words = ["demo", *SMALL, "--keep", str(tmp_path), "--fresh"]
    wanted = [tmp_path / "demo.json", tmp_path / "run" / "ready.json"]
    with begun(*words) as one, begun(*words) as other:
        both = [one, other]
        until(
            lambda: all(path.exists() for path in wanted) and any(each.poll() is not None for each in both),
            STARTS_WITHIN,
        )
        last = next(each for each in both if each.poll() is None)
        last.send_signal(SIGINT)
        said = [each.communicate(timeout=GONE_WITHIN)[1] for each in both]
    assert sorted(each.returncode for each in both) == [0, 3]
    assert sum(b"in use by another" in each for each in said) == 1
    assert json.loads((tmp_path / "demo.json").read_text())["universe"] == 300_000


def test_nor_is_one_that_any_other_notifier_holds(tmp_path: Path, notifier: Notifier) -> None:
    (tmp_path / "demo.json").write_text(OTHERS)
    (tmp_path / "core.db").touch()
    with Embedded(Settings(data=tmp_path, redis_url="")).services():
        assert "in use by another running notifier" in refused(notifier, "--keep", str(tmp_path), "--fresh")
    assert (tmp_path / "core.db").exists()


@pytest.mark.parametrize("fresh", [(), ("--fresh",)])
def test_a_stranger_s_folder_is_left_alone(fresh: tuple[str, ...], tmp_path: Path, notifier: Notifier) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    said = refused(notifier, "--keep", str(tmp_path), *fresh)
    assert "isn't a notifier's" in said
    assert "thesis.txt" in said
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_the_four_people_are_who_they_are_said_to_be() -> None:
    world = World(universe=2_000_000, followers=2_000_000, celebrities=1, seed=1)
    vip, active, occasional, away = (int(name.removeprefix("u")) for name in people(world))
    idle = [(member * 619 + 17) % 1000 for member in (vip, active, occasional, away)]
    assert vip % 9973 == 1
    assert all(member % 9973 != 1 for member in (active, occasional, away))
    assert idle[0] < 80
    assert idle[1] < 50
    assert 80 <= idle[2] < 250 <= idle[3]
    assert all((member + 1) % 211 for member in (vip, active, occasional, away))
    assert vip % 7 > 2
    assert all(member % 502 == 1 for member in (active, occasional, away))


def test_a_world_of_a_few_has_somebody_to_show() -> None:
    assert len(people(World(universe=10, followers=5, celebrities=1, seed=1))) == 4
