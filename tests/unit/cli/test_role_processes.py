"""Processes that `notifier up` runs, and the number of API processes."""

import os
from pathlib import Path

import pytest

from notifier.cli.supervisor.role_processes import (
    ROLES,
    api_processes,
    available_cores,
    default_api_processes,
    is_awaited,
    process_arguments,
)
from notifier.config import MAX_API_WORKERS, Settings
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.errors import BadSetting


def test_one_process_runs_per_role_by_default() -> None:
    assert process_arguments(api=1, pools={}) == ROLES


def test_further_processes_are_numbered() -> None:
    commands = process_arguments(api=3, pools={Pool.P1: 2})
    assert {name: arguments for name, arguments in commands.items() if name not in ROLES} == {
        "api-2": ("api", "--number", "2"),
        "api-3": ("api", "--number", "3"),
        "p1-2": ("worker", "p1", "--number", "2"),
    }


def test_start_waits_for_the_first_api_process_and_every_worker() -> None:
    commands = process_arguments(api=3, pools={Pool.P1: 2})
    assert {name for name in commands if not is_awaited(name)} == {"api-2", "api-3"}


def test_setting_decides_the_number_of_api_processes() -> None:
    assert api_processes(Settings(api_workers=3)) == 3


@pytest.mark.parametrize(("cores", "count"), [(1, 1), (2, 1), (3, 1), (4, 2), (8, 4), (64, 4)])
def test_api_has_half_of_the_cores_by_default(cores: int, count: int) -> None:
    assert default_api_processes(cores) == count


@pytest.mark.parametrize("value", ["0", str(MAX_API_WORKERS + 1), "two", ""])
def test_impossible_number_of_api_processes_is_refused(value: str) -> None:
    with pytest.raises(BadSetting, match="NOTIFIER_API_WORKERS"):
        Settings.read({"NOTIFIER_API_WORKERS": value})


def test_cores_are_those_of_the_affinity_without_a_quota(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert (
        available_cores(tmp_path / "cpu.max") == available_cores(tmp_path / "missing") == len(os.sched_getaffinity(0))
    )


@pytest.mark.parametrize("quota", ["100000 100000", "150000 100000", "1000 100000"])
def test_quota_of_a_container_limits_the_available_cores(tmp_path: Path, quota: str) -> None:
    (tmp_path / "cpu.max").write_text(quota + "\n")
    assert available_cores(tmp_path / "cpu.max") == 1
