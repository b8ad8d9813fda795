"""The Dockerfile: pinned inputs, no build tools in the result, and a numeric user."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pytest

from notifier.config import VARIABLE_PREFIX, Settings
from tests.docs.command_line_check import check_command
from tests.repo.manifests import WORKLOADS, find_manifest, workload
from tests.repo.repository_files import PRODUCT, ROOT
from tests.repo.test_requirements import pins


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    image: str
    name: str
    lines: tuple[str, ...]
    """One instruction each, with continuations joined and comments removed."""

    def arguments_of(self, instruction: str) -> list[str]:
        return [arguments for name, _, arguments in (line.partition(" ") for line in self.lines) if name == instruction]


@cache
def stages() -> tuple[Stage, ...]:
    stages_: list[Stage] = []
    for line in instructions():
        if match := re.fullmatch(r"FROM (\S+)(?: AS (\S+))?", line):
            stages_.append(Stage(image=match[1], name=match[2] or "", lines=()))
        elif stages_:
            last = stages_.pop()
            stages_.append(Stage(image=last.image, name=last.name, lines=(*last.lines, line)))
    return tuple(stages_)


def instructions() -> Iterator[str]:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    return (" ".join(line.split()) for line in text.splitlines() if line.strip())


def build() -> Stage:
    return stages()[0]


def last() -> Stage:
    return stages()[-1]


def copied(stage: Stage) -> set[str]:
    """Return the files of the repository that the stage copies."""
    return {
        name for arguments in stage.arguments_of("COPY") if "--from" not in arguments for name in arguments.split()[:-1]
    }


def test_build_and_run_stages_use_the_same_python() -> None:
    assert [stage.name for stage in stages()] == ["build", ""]
    assert build().image == last().image == "python:${PYTHON}"
    [python] = re.findall(r"^ARG PYTHON=(\S+)", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    pinned_with = re.search(r"with Python (\S+)$", (ROOT / "requirements" / "run.txt").read_text(), flags=re.MULTILINE)
    assert pinned_with
    assert python.partition("-")[0] == pinned_with[1]


def test_installed_packages_are_pinned_by_hash_and_not_compiled() -> None:
    installs = [
        command for line in build().arguments_of("RUN") for command in re.findall(r"(?<=\binstall )[^&]+", line)
    ]
    assert len(installs) == 3
    for arguments in installs:
        assert (
            "--require-hashes" in arguments and "--only-binary=:all:" in arguments
        ) or "--no-deps /built/*.whl" in arguments
    assert [arguments for arguments in installs if "-r requirements/run.txt" in arguments]
    assert all(
        "--no-build-isolation" in command
        for line in build().arguments_of("RUN")
        for command in re.findall("wheel .*", line)
    )


def test_build_backend_is_pinned_in_dev_requirements() -> None:
    [source] = re.findall(r"sed -n '/\^(\w+)==/,/# via/p' (\S+)", " ".join(build().arguments_of("RUN")))
    assert source == ("setuptools", "requirements/dev.txt")
    assert "setuptools" in pins("dev.txt")
    text = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")
    entry = re.search(r"^setuptools==(?:.*\n)*?.*# via", text, flags=re.MULTILINE)
    assert entry
    assert len(re.findall("==", entry[0])) == 1


def test_only_the_sources_of_the_wheel_are_copied() -> None:
    pinned = {"requirements/run.txt", "requirements/dev.txt"}
    assert copied(build()) == {*PRODUCT, "migrations", "pyproject.toml", *pinned}
    assert copied(last()) == set()
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in ignored if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {line.removeprefix("!") for line in rules if line.startswith("!")} == copied(build())
    assert all((ROOT / name).exists() for name in copied(build()))


def test_final_stage_has_no_install_or_build_tools() -> None:
    assert "pip uninstall --yes --quiet pip setuptools wheel" in last().arguments_of("RUN")[0]
    assert last().arguments_of("COPY") == ["--from=build /opt/notifier /opt/notifier"]
    assert "--without-pip /opt/notifier" in " ".join(build().arguments_of("RUN"))


@pytest.mark.parametrize("role", WORKLOADS)
def test_user_is_numeric_and_equals_that_of_kubernetes(role: str) -> None:
    [user] = last().arguments_of("USER")
    uid, _, gid = user.partition(":")
    security_context = workload(role).pod["securityContext"]
    assert int(uid) == security_context["runAsUser"] != 0
    assert int(gid) == security_context["runAsGroup"] == security_context["fsGroup"] != 0
    assert last().lines.index(f"USER {user}") > max(n for n, line in enumerate(last().lines) if line.startswith("RUN"))


def test_environment_holds_settings_that_agree_with_kubernetes() -> None:
    settings = find_manifest("ConfigMap", "notifier").content["data"]
    image_settings = dict(re.findall(rf"({VARIABLE_PREFIX}\w+)=(\S+)", " ".join(last().arguments_of("ENV"))))
    assert Settings.read(image_settings) != Settings()
    assert {name: settings[name] for name in image_settings} == image_settings
    assert last().arguments_of("EXPOSE") == [str(Settings().port)]


def test_entrypoint_takes_the_role_as_argument() -> None:
    assert last().arguments_of("ENTRYPOINT") == ['["notifier"]']
    assert last().arguments_of("CMD") == ['["up"]']
    assert last().arguments_of("HEALTHCHECK") == ["NONE"]
    check_command(["up"])
