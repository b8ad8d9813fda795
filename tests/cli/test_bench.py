"""The bench as an outsider runs it: its envelope comes whatever happens, and an interruption leaves nothing behind."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.demo_page import SMALL, starts
from notifier.devkit.check.instance import Instance
from notifier.devkit.engines.maven import missing
from tests.cli.running import lives, until

STARTED_WITHIN = 60.0
"""Seconds; a free machine needs four."""


def command(*arguments: str, name: str = "fanout") -> list[str]:
    return [sys.executable, "-m", "benchmarks", name, "--quick", *arguments, "--json"]


def environment(folder: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("NOTIFIER_")}
    return own | {"TMPDIR": str(folder)}


def bench(folder: Path, *arguments: str, largest_file: int = -1) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        timeout=100,
        env=environment(folder),
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file)),
    )


def report(ran: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    found = json.loads(ran.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found


def test_the_envelope_has_the_spread_of_what_was_measured_and_progress_goes_elsewhere(tmp_path: Path) -> None:
    ran = bench(tmp_path, "--only", "plan_200m_rss_mb")
    found = report(ran)
    assert list(found) == ["schema", "profile", "seed", "machine", "checks", "ok", "ours", "baseline", "peers"]
    assert [check["name"] for check in found["checks"]] == ["plan_200m_rss_mb"]
    assert set(found["ours"]["plan_200m_rss_mb"]) == {"min", "median", "max", "unit", "n"}
    assert ran.returncode == (0 if found["ok"] else 1)
    assert "planning: " in ran.stderr
    assert [*tmp_path.iterdir()] == []


def test_where_nothing_can_be_written_the_envelope_says_why_and_the_exit_code_is_one(tmp_path: Path) -> None:
    ran = bench(tmp_path, "--only", "planning", largest_file=8_192)
    found = report(ran)
    assert ran.returncode == 1
    assert found["ok"] is False
    assert {check["name"]: check["ok"] for check in found["checks"]} == {
        "plan_200m_s": False,
        "plan_200m_rss_mb": False,
        "plan_rss_independent_mb": False,
    }
    assert all(check["detail"].startswith("The part planning ended with ") for check in found["checks"])
    assert "Traceback" not in ran.stderr


def test_without_a_browser_each_figure_of_a_page_says_what_is_missing_and_none_is_made_up(tmp_path: Path) -> None:
    asked = command("--only", "looks", "--only", "storm", name="page")
    nowhere = environment(tmp_path) | {"PATH": str(tmp_path)}
    found = report(subprocess.run(asked, capture_output=True, text=True, timeout=100, env=nowhere, check=False))
    words = "NoBrowser: A browser is needed, and no chromium is installed: apt-get install chromium."
    assert [check["name"] for check in found["checks"]] == [
        *("page_kb", "page_kb{system}", "axe_violations", "demo_200m_p1_s")
    ]
    assert [(check["ok"], check["value"], check["detail"].endswith(words)) for check in found["checks"]] == 4 * [
        (False, None, True)
    ]


@pytest.mark.parametrize("name", ["cql", "log"])
def test_without_java_a_bench_of_engines_says_what_to_install(name: str, tmp_path: Path) -> None:
    nowhere = environment(tmp_path) | {"PATH": str(tmp_path)}
    ran = subprocess.run(command(name=name), capture_output=True, text=True, timeout=60, env=nowhere, check=False)
    assert (ran.returncode, ran.stdout) == (3, "")
    assert "There is no java and no mvn here. Install Java 17 and Maven" in ran.stderr


def test_inboxes_on_a_cluster_need_its_engines_and_say_what_to_install(tmp_path: Path) -> None:
    nowhere = environment(tmp_path) | {"PATH": str(tmp_path)}
    asked = command("--profile", "cluster", name="inbox")
    ran = subprocess.run(asked, capture_output=True, text=True, timeout=60, env=nowhere, check=False)
    assert (ran.returncode, ran.stdout) == (3, "")
    assert "There is no java and no mvn here. Install Java 17 and Maven" in ran.stderr
    assert [*tmp_path.glob("notifier-*")] == []


def test_parts_of_an_open_are_timed_without_a_running_notifier(tmp_path: Path) -> None:
    asked = command("--only", "parts", name="inbox")
    ran = subprocess.run(asked, capture_output=True, text=True, timeout=100, env=environment(tmp_path), check=False)
    found = report(ran)
    assert (ran.returncode, found["ok"], found["profile"]) == (0, True, "embedded")
    names = [f"inbox_part_us{{{part}}}" for part in ("auth", "predicate", "body", "encrypt", "encode")]
    assert [check["name"] for check in found["checks"]] == names
    assert all(found["ours"][name]["min"] > 0 for name in names)
    assert [*tmp_path.iterdir()] == []


def test_a_part_of_the_inbox_that_is_unknown_is_named_with_those_that_are_known(tmp_path: Path) -> None:
    asked = command("--only", "outbox", name="inbox")
    ran = subprocess.run(asked, capture_output=True, text=True, timeout=60, env=environment(tmp_path), check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "There is no figure 'outbox'; there are parts, pages, news, latency, load," in ran.stderr


@pytest.mark.timeout(300)
@pytest.mark.skipif(bool(missing()), reason="the engines need Java 17 and Maven")
def test_the_log_is_measured_on_a_broker_that_is_gone_afterwards(tmp_path: Path) -> None:
    asked = [*command("--only", "log_append_p50_ms", "--only", "log_per_s", name="log")]
    ran = subprocess.run(asked, capture_output=True, text=True, timeout=280, env=environment(tmp_path), check=False)
    found = report(ran)
    assert ran.returncode == 0, ran.stderr
    assert found["profile"] == "cluster"
    names = [check["name"] for check in found["checks"]]
    assert names == ["log_append_p50_ms", "log_per_s{produce}", "log_per_s{consume}"]
    for side in ("ours", "baseline"):
        assert all(found[side][name]["min"] > 0 for name in names[1:])
    assert [*tmp_path.glob("notifier-bench-*")] == []


@pytest.mark.timeout(400)
def test_the_demo_starts_on_an_empty_folder_and_again_with_what_it_had(tmp_path: Path) -> None:
    """How soon is for a machine that does nothing else; here it must be measured at all, and remember."""
    told: list[str] = []
    fresh, again = starts(tmp_path, rounds=1, tell=told.append, words=("--followers", str(SMALL)))
    assert told == ["start 1 of 1 on an empty folder", "start 1 of 1 on the folder of the last one"]
    assert (fresh.finding.name, fresh.finding.limit, fresh.finding.n) == ("demo_ready_s{fresh}", 10.0, 1)
    assert (again.finding.name, again.finding.limit, again.finding.n) == ("demo_ready_s{again}", 6.0, 1)
    assert again.finding.detail.endswith("The world is the old one, and the inbox has what it had.")
    assert isinstance(again.finding.value, float)
    assert 0 < again.finding.value < 60


@pytest.mark.timeout(150)
def test_an_interrupted_bench_takes_its_processes_and_its_folder_along(tmp_path: Path) -> None:
    """As from a terminal: the signal goes to all processes at once."""
    with (tmp_path / "said").open("wb") as said, (tmp_path / "told").open("wb") as told:
        running = subprocess.Popen(
            command("--only", "memory"), stdout=said, stderr=told, env=environment(tmp_path), start_new_session=True
        )
    try:
        until(lambda: "memory with 1,000,000" in (tmp_path / "told").read_text(), STARTED_WITHIN)
        (data,) = tmp_path.glob("notifier-bench-*/memory/*")
        pids = [*Instance(data=data).pids().values()]
        assert pids
        os.killpg(running.pid, signal.SIGINT)
        assert running.wait(60) == 130
    finally:
        running.kill()
        running.wait()
    assert (tmp_path / "said").read_text() == ""
    assert "Traceback" not in (tmp_path / "told").read_text()
    assert [pid for pid in pids if lives(pid)] == []
    assert [*tmp_path.glob("notifier-bench-*")] == []
