"""Links, pictures, commands and package lists in the documents are correct."""

import re
from pathlib import Path

import pytest

from tests.repo.repository_files import ROOT, documents

LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")
PICTURE = re.compile(r"!\[([^]]*)\]\(([^)]+)\)|<img\b")
PICTURES = ROOT / "docs" / "pictures"
HOME = re.compile(r"(?<![\w.])/(?:home|root|Users|work|mnt)/")
MAKE = re.compile(r"(?:`|^\s*(?:\$ )?)make ((?:[a-z]+(?:-[a-z]+)*\b ?)+)", flags=re.MULTILINE)

for_each_document = pytest.mark.parametrize("document", documents(), ids=lambda path: path.relative_to(ROOT).as_posix())


@for_each_document
def test_links_lead_to_files_of_the_repository(document: Path) -> None:
    targets = [(document.parent / link).resolve() for link in LINK.findall(document.read_text(encoding="utf-8"))]
    assert [target for target in targets if not (target.is_relative_to(ROOT) and target.exists())] == []


@for_each_document
def test_pictures_exist_and_have_a_description(document: Path) -> None:
    for match in PICTURE.finditer(document.read_text(encoding="utf-8")):
        description, path = match[1], match[2]
        assert path, "write it as Markdown"
        assert len(description.split()) > 3, path
        assert (document.parent / path).resolve().is_relative_to(PICTURES)
        assert (document.parent / path).is_file()


def test_every_picture_is_shown_somewhere() -> None:
    shown = {
        (document.parent / match[2]).resolve()
        for document in documents()
        for match in PICTURE.finditer(document.read_text())
    }
    assert {path for path in PICTURES.iterdir() if path.is_file()} <= shown


@for_each_document
def test_documents_contain_no_home_folder(document: Path) -> None:
    assert HOME.findall(document.read_text(encoding="utf-8")) == []


@for_each_document
def test_make_commands_are_targets_of_the_makefile(document: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    used = {target for line in MAKE.findall(document.read_text(encoding="utf-8")) for target in line.split()}
    assert used <= targets


def test_contributing_lists_every_package() -> None:
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    packages = {path.stem for path in (ROOT / "notifier").iterdir() if path.suffix == ".py" or any(path.rglob("*.py"))}
    assert {
        package
        for package in packages
        if not package.startswith("__") and not re.search(rf"\b{package}(?:/|\.py)", contributing)
    } == set()


def test_contributing_lists_only_existing_packages() -> None:
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tree = re.search(r"```text\n(.*?)```", contributing, flags=re.DOTALL)
    assert tree
    named = [line.split()[0] for line in tree[1].splitlines() if line.strip()]
    assert [path for path in named if not (ROOT / path).exists()] == []
