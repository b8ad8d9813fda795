"""The Dockerfile: what goes in is pinned; what comes out has no tools, and a user who is a number."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pytest

from notifier.config import PREFIX, Settings
from tests.docs.understood import understood
from tests.repo.manifests import WORKLOADS, one, workload
from tests.repo.sources import PRODUCT, ROOT
from tests.repo.test_requirements import pins


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    image: str
    name: str
    lines: tuple[str, ...]
    """An instruction each, its continuations joined, comments left out."""

    def said(self, word: str) -> list[str]:
        return [rest for first, _, rest in (line.partition(" ") for line in self.lines) if first == word]


@cache
def stages() -> tuple[Stage, ...]:
    found: list[Stage] = []
    for line in instructions():
        if begins := re.fullmatch(r"FROM (\S+)(?: AS (\S+))?", line):
            found.append(Stage(image=begins[1], name=begins[2] or "", lines=()))
        elif found:
            last = found.pop()
            found.append(Stage(image=last.image, name=last.name, lines=(*last.lines, line)))
    return tuple(found)


def instructions() -> Iterator[str]:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    return (" ".join(line.split()) for line in text.splitlines() if line.strip())


def build() -> Stage:
    return stages()[0]


def last() -> Stage:
    return stages()[-1]


def copied(stage: Stage) -> set[str]:
    """Sources within the repository."""
    return {name for words in stage.said("COPY") if "--from" not in words for name in words.split()[:-1]}


def test_there_is_a_stage_that_builds_and_one_that_runs_on_the_same_python() -> None:
    assert [stage.name for stage in stages()] == ["build", ""]
    assert build().image == last().image == "python:${PYTHON}"
    [python] = re.findall(r"^ARG PYTHON=(\S+)", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    pinned_with = re.search(r"with Python (\S+)$", (ROOT / "requirements" / "run.txt").read_text(), flags=re.MULTILINE)
    assert pinned_with
    assert python.partition("-")[0] == pinned_with[1]


def test_everything_that_is_installed_is_pinned_by_its_hash_and_compiled_by_nobody() -> None:
    installs = [each for line in build().said("RUN") for each in re.findall(r"(?<=\binstall )[^&]+", line)]
    assert len(installs) == 3
    for words in installs:
        assert ("--require-hashes" in words and "--only-binary=:all:" in words) or "--no-deps /built/*.whl" in words
    assert [words for words in installs if "-r requirements/run.txt" in words]
    assert all("--no-build-isolation" in each for line in build().said("RUN") for each in re.findall("wheel .*", line))


def test_what_builds_the_wheel_is_pinned_in_the_file_that_it_is_taken_from() -> None:
    [taken] = re.findall(r"sed -n '/\^(\w+)==/,/# via/p' (\S+)", " ".join(build().said("RUN")))
    assert taken == ("setuptools", "requirements/dev.txt")
    assert "setuptools" in pins("dev.txt")
    text = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")
    entry = re.search(r"^setuptools==(?:.*\n)*?.*# via", text, flags=re.MULTILINE)
    assert entry
    assert len(re.findall("==", entry[0])) == 1


def test_the_wheel_s_sources_go_in_and_nothing_else_does() -> None:
    pinned = {"requirements/run.txt", "requirements/dev.txt"}
    assert copied(build()) == {*PRODUCT, "migrations", "pyproject.toml", *pinned}
    assert copied(last()) == set()
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in ignored if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {line.removeprefix("!") for line in rules if line.startswith("!")} == copied(build())
    assert all((ROOT / name).exists() for name in copied(build()))


def test_what_runs_has_no_tools_that_install_or_build() -> None:
    assert "pip uninstall --yes --quiet pip setuptools wheel" in last().said("RUN")[0]
    assert last().said("COPY") == ["--from=build /opt/notifier /opt/notifier"]
    assert "--without-pip /opt/notifier" in " ".join(build().said("RUN"))


@pytest.mark.parametrize("role", WORKLOADS)
def test_its_user_is_a_number_and_the_one_that_kubernetes_is_told(role: str) -> None:
    [user] = last().said("USER")
    uid, _, gid = user.partition(":")
    told = workload(role).pod["securityContext"]
    assert int(uid) == told["runAsUser"] != 0
    assert int(gid) == told["runAsGroup"] == told["fsGroup"] != 0
    assert last().lines.index(f"USER {user}") > max(n for n, line in enumerate(last().lines) if line.startswith("RUN"))


def test_what_it_sets_are_settings_and_agree_with_those_of_kubernetes() -> None:
    told = one("ConfigMap", "notifier").content["data"]
    own = dict(re.findall(rf"({PREFIX}\w+)=(\S+)", " ".join(last().said("ENV"))))
    assert Settings.read(own) != Settings()
    assert {name: told[name] for name in own} == own
    assert last().said("EXPOSE") == [str(Settings().port)]


def test_it_runs_the_command_line_with_the_role_as_its_argument() -> None:
    assert last().said("ENTRYPOINT") == ['["notifier"]']
    assert last().said("CMD") == ['["up"]']
    assert last().said("HEALTHCHECK") == ["NONE"]
    understood(["up"])
