"""What the documents say of this repository is true: their links, their commands, their list of rooms."""

import re
from pathlib import Path

import pytest

from tests.repo.sources import ROOT, documents

LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")
PICTURE = re.compile(r"!\[([^]]*)\]\(([^)]+)\)|<img\b")
PICTURES = ROOT / "docs" / "pictures"
HOME = re.compile(r"(?<![\w.])/(?:home|root|Users|work|mnt)/")
MAKE = re.compile(r"(?:`|^\s*(?:\$ )?)make ((?:[a-z]+(?:-[a-z]+)*\b ?)+)", flags=re.MULTILINE)

each_document = pytest.mark.parametrize("document", documents(), ids=lambda path: path.relative_to(ROOT).as_posix())


@each_document
def test_links_lead_to_files_of_the_repository(document: Path) -> None:
    targets = [(document.parent / link).resolve() for link in LINK.findall(document.read_text(encoding="utf-8"))]
    assert [target for target in targets if not (target.is_relative_to(ROOT) and target.exists())] == []


@each_document
def test_every_picture_is_there_and_says_what_it_shows_to_who_cannot_see_it(document: Path) -> None:
    for found in PICTURE.finditer(document.read_text(encoding="utf-8")):
        words, path = found[1], found[2]
        assert path, "write it as Markdown"
        assert len(words.split()) > 3, path
        assert (document.parent / path).resolve().is_relative_to(PICTURES)
        assert (document.parent / path).is_file()


def test_every_picture_is_shown_somewhere() -> None:
    shown = {(one.parent / found[2]).resolve() for one in documents() for found in PICTURE.finditer(one.read_text())}
    assert {path for path in PICTURES.iterdir() if path.is_file()} <= shown


@each_document
def test_nobodys_machine_is_spoken_of(document: Path) -> None:
    assert HOME.findall(document.read_text(encoding="utf-8")) == []


@each_document
def test_commands_are_targets_of_the_makefile(document: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    used = {word for words in MAKE.findall(document.read_text(encoding="utf-8")) for word in words.split()}
    assert used <= targets


def test_contributing_names_every_room_of_the_house() -> None:
    house = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = {path.stem for path in (ROOT / "notifier").iterdir() if path.suffix == ".py" or any(path.rglob("*.py"))}
    assert {
        room for room in rooms if not room.startswith("__") and not re.search(rf"\b{room}(?:/|\.py)", house)
    } == set()


def test_contributing_names_no_room_that_does_not_exist() -> None:
    house = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tree = re.search(r"```text\n(.*?)```", house, flags=re.DOTALL)
    assert tree
    named = [line.split()[0] for line in tree[1].splitlines() if line.strip()]
    assert [path for path in named if not (ROOT / path).exists()] == []
