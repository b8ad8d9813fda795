"""Emptying a demo folder removes only files of the notifier, and resumes after a crash."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from notifier.cli.commands.demo_folder_cleanup import (
    has_owned_files,
    is_partly_removed,
    remove,
    remove_demo_data,
    require_own_folder,
)
from notifier.cli.commands.import_.loader import ImportCheckpoint
from notifier.devkit.fixture.world import World
from notifier.domain.errors import NotADataFolder, Unwritable

OWN = (
    "core.db",
    "core.db-wal",
    "log.db",
    "inbox-07.db",
    "secret.json",
    "service_keys.json",
    "fixture.json",
    "demo.json",
    "demo.json.new",
)
WORLD_MARKERS = ("fixture.json", "demo.json", "demo.loading.json", "demo.ending.json")
WORLD = json.dumps(asdict(World(universe=2, followers=1, celebrities=1, seed=1)))
INSIDE = (
    "logs/pump.log",
    "logs/p1-2.log",
    "logs/api.log.1",
    "logs/api-12.log.1",
    "run/lock",
    "run/valkey/valkey.log",
    "run/up/api",
    "imports/7d865e9501c2b3d4/progress.json",
    "run/loading",
)
FOREIGN = (
    *("thesis.txt", "logs/diary.log", "run/away.sh", "inbox-mine.db", "old/core.db"),
    *("imports/follows.csv", "imports/7d865e95/follows.csv"),
    *(
        "core.db.bak",
        "core.db-copies/monday",
        "logs/api.log-2019/may",
        "logs/p0.log.gz",
        "logs/p1-2x.log",
        "demo.json.orig",
    ),
)


def fill_folder(data: Path, *names: str) -> Path:
    for name in names:
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text(WORLD if name in WORLD_MARKERS else name)
    return data


def files(data: Path) -> set[str]:
    return {path.relative_to(data).as_posix() for path in data.rglob("*") if path.is_file()}


def test_removal_deletes_only_own_files_and_keeps_lock(tmp_path: Path) -> None:
    remove_demo_data(fill_folder(tmp_path, *OWN, *INSIDE, *FOREIGN))
    assert files(tmp_path) == {*FOREIGN, "run/lock"}


def test_removal_does_not_follow_links(tmp_path: Path) -> None:
    elsewhere, data = fill_folder(tmp_path / "elsewhere", "photo"), fill_folder(tmp_path / "data", "demo.json")
    (data / "run").mkdir()
    (data / "run" / "valkey").symlink_to(elsewhere)
    remove_demo_data(data)
    assert not has_owned_files(data)
    assert files(elsewhere) == {"photo"}


@pytest.mark.parametrize("names", [("core.db",), ("fixture.json", "core.db"), ("secret.json",)], ids=str)
def test_removal_refuses_folder_without_demo(names: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(NotADataFolder):
        remove_demo_data(fill_folder(tmp_path, *names))
    assert files(tmp_path) == set(names)


@pytest.mark.parametrize("crash", range(12))
def test_half_emptied_folder_is_recognized_and_can_be_emptied(crash: int, tmp_path: Path) -> None:
    fill_folder(tmp_path, *OWN, *INSIDE)
    with pytest.raises(Unwritable):
        remove_demo_data(tmp_path, failing_at(crash))
    assert is_partly_removed(tmp_path)
    require_own_folder(tmp_path)
    remove_demo_data(tmp_path)
    assert files(tmp_path) == {"run/lock"}
    assert not is_partly_removed(tmp_path)


@pytest.mark.parametrize("content", ['{"name": "my demo"}', "[]", "// not JSON"])
def test_foreign_demo_json_does_not_make_demo_folder(content: str, tmp_path: Path) -> None:
    (fill_folder(tmp_path, "secret.json", "main.py") / "demo.json").write_text(content)
    with pytest.raises(NotADataFolder, match=r"main\.py"):
        require_own_folder(tmp_path)
    (tmp_path / "main.py").unlink()
    with pytest.raises(NotADataFolder):
        remove_demo_data(tmp_path)
    assert files(tmp_path) == {"secret.json", "demo.json"}


def failing_at(number: int) -> Callable[[Path], None]:
    calls_left = iter(range(number, -1, -1))

    def failing(path: Path) -> None:
        if not next(calls_left):
            raise OSError(5, "Input/output error")
        remove(path)

    return failing


@pytest.mark.parametrize("name", FOREIGN)
def test_folder_with_foreign_file_is_rejected(name: str, tmp_path: Path) -> None:
    fill_folder(tmp_path, name, "run/lock", "logs/pump.log")
    with pytest.raises(NotADataFolder, match=name.rpartition("/")[2]):
        require_own_folder(tmp_path)


@pytest.mark.parametrize("names", [(), ("run/lock",), INSIDE, ("core.db", "thesis.txt"), ("demo.json", "x")], ids=str)
def test_partial_notifier_folder_is_accepted(names: tuple[str, ...], tmp_path: Path) -> None:
    require_own_folder(fill_folder(tmp_path, *names))


def test_progress_of_an_import_is_removed(tmp_path: Path) -> None:
    """Its folder is named by the import's own rule."""
    progress = ImportCheckpoint.of(tmp_path, "follows", tmp_path / "follows.csv").folder / "progress.json"
    data = fill_folder(tmp_path, "demo.json", progress.relative_to(tmp_path).as_posix())
    remove_demo_data(data)
    assert not progress.exists()
