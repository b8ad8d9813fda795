"""Benchmarks as a user runs them: they always report, and leave nothing after an interrupt."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.demo_page import SMALL_FOLLOWERS, starts
from notifier.devkit.check.notifier_and_engine_processes import Instance
from notifier.devkit.engines.maven import missing_tools
from tests.cli.running_service import is_running, until

pytestmark = pytest.mark.prove

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


def report(process: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    envelope = json.loads(process.stdout.splitlines()[-1])
    assert isinstance(envelope, dict)
    return envelope


def test_envelope_has_spread_and_progress_goes_to_stderr(tmp_path: Path) -> None:
    process = bench(tmp_path, "--only", "plan_200m_rss_mb")
    envelope = report(process)
    assert list(envelope) == ["schema", "profile", "seed", "machine", "checks", "ok", "ours", "baseline", "peers"]
    assert [check["name"] for check in envelope["checks"]] == ["plan_200m_rss_mb"]
    assert set(envelope["ours"]["plan_200m_rss_mb"]) == {"min", "median", "max", "unit", "n"}
    assert process.returncode == (0 if envelope["ok"] else 1)
    assert "planning: " in process.stderr
    assert [*tmp_path.iterdir()] == []


def test_unwritable_disk_is_reported_in_envelope(tmp_path: Path) -> None:
    process = bench(tmp_path, "--only", "planning", largest_file=8_192)
    envelope = report(process)
    assert process.returncode == 1
    assert envelope["ok"] is False
    assert {check["name"]: check["ok"] for check in envelope["checks"]} == {
        "plan_200m_s": False,
        "plan_200m_rss_mb": False,
        "plan_rss_independent_mb": False,
    }
    assert all(check["detail"].startswith("part planning failed with ") for check in envelope["checks"])
    assert "Traceback" not in process.stderr


def test_missing_browser_is_reported_for_every_page_figure(tmp_path: Path) -> None:
    arguments = command("--only", "looks", "--only", "storm", name="page")
    without_path = environment(tmp_path) | {"PATH": str(tmp_path)}
    envelope = report(
        subprocess.run(arguments, capture_output=True, text=True, timeout=100, env=without_path, check=False)
    )
    message = "NoBrowser: A browser is needed, and no chromium is installed: apt-get install chromium."
    assert [check["name"] for check in envelope["checks"]] == [
        *("page_kb", "page_kb{system}", "axe_violations", "demo_200m_p1_s")
    ]
    assert [(check["ok"], check["value"], check["detail"].endswith(message)) for check in envelope["checks"]] == 4 * [
        (False, None, True)
    ]


@pytest.mark.parametrize("name", ["cql", "log"])
def test_engine_benchmark_without_java_says_what_to_install(name: str, tmp_path: Path) -> None:
    without_path = environment(tmp_path) | {"PATH": str(tmp_path)}
    process = subprocess.run(
        command(name=name), capture_output=True, text=True, timeout=60, env=without_path, check=False
    )
    assert (process.returncode, process.stdout) == (3, "")
    assert "java and mvn not found. Install Java 17 and Maven" in process.stderr


def test_cluster_inbox_benchmark_says_which_engines_to_install(tmp_path: Path) -> None:
    without_path = environment(tmp_path) | {"PATH": str(tmp_path)}
    arguments = command("--profile", "cluster", name="inbox")
    process = subprocess.run(arguments, capture_output=True, text=True, timeout=60, env=without_path, check=False)
    assert (process.returncode, process.stdout) == (3, "")
    assert "java and mvn not found. Install Java 17 and Maven" in process.stderr
    assert [*tmp_path.glob("notifier-*")] == []


def test_inbox_parts_are_timed_without_running_notifier(tmp_path: Path) -> None:
    arguments = command("--only", "parts", name="inbox")
    process = subprocess.run(
        arguments, capture_output=True, text=True, timeout=100, env=environment(tmp_path), check=False
    )
    envelope = report(process)
    assert (process.returncode, envelope["ok"], envelope["profile"]) == (0, True, "embedded")
    names = [
        f"inbox_part_us{{{part}}}" for part in ("auth", "look_up", "merge", "predicate", "body", "encrypt", "encode")
    ]
    assert [check["name"] for check in envelope["checks"]] == names
    assert all(envelope["ours"][name]["min"] > 0 for name in names)
    assert [*tmp_path.iterdir()] == []


def test_unknown_inbox_figure_is_rejected_with_known_ones(tmp_path: Path) -> None:
    arguments = command("--only", "outbox", name="inbox")
    process = subprocess.run(
        arguments, capture_output=True, text=True, timeout=60, env=environment(tmp_path), check=False
    )
    assert (process.returncode, process.stdout) == (2, "")
    assert "unknown figure 'outbox'; choose from parts, pages, news, latency, load," in process.stderr


@pytest.mark.prove
@pytest.mark.timeout(300)
@pytest.mark.skipif(bool(missing_tools()), reason="the engines need Java 17 and Maven")
def test_log_benchmark_stops_its_broker(tmp_path: Path) -> None:
    arguments = [*command("--only", "log_append_p50_ms", "--only", "log_per_s", name="log")]
    process = subprocess.run(
        arguments, capture_output=True, text=True, timeout=280, env=environment(tmp_path), check=False
    )
    envelope = report(process)
    assert process.returncode == 0, process.stderr
    assert envelope["profile"] == "cluster"
    names = [check["name"] for check in envelope["checks"]]
    assert names == ["log_append_p50_ms", "log_per_s{produce}", "log_per_s{consume}"]
    for side in ("ours", "baseline"):
        assert all(envelope[side][name]["min"] > 0 for name in names[1:])
    assert [*tmp_path.glob("notifier-bench-*")] == []


@pytest.mark.prove
@pytest.mark.timeout(400)
def test_demo_start_is_timed_on_empty_and_used_folder(tmp_path: Path) -> None:
    """The limits hold on an idle machine. Here, both starts must be measured, and the second must keep its data."""
    messages: list[str] = []
    fresh, again = starts(tmp_path, rounds=1, tell=messages.append, arguments=("--followers", str(SMALL_FOLLOWERS)))
    assert messages == ["start 1 of 1 on an empty folder", "start 1 of 1 on the last folder"]
    assert (fresh.finding.name, fresh.finding.limit, fresh.finding.n) == ("demo_ready_s{fresh}", 10.0, 1)
    assert (again.finding.name, again.finding.limit, again.finding.n) == ("demo_ready_s{again}", 6.0, 1)
    assert again.finding.detail.endswith("World and inbox are the same as before.")
    assert isinstance(again.finding.value, float)
    assert 0 < again.finding.value < 60


@pytest.mark.timeout(150)
def test_interrupted_benchmark_removes_processes_and_folder(tmp_path: Path) -> None:
    """The signal goes to all processes at once, as in a terminal."""
    with (tmp_path / "stdout").open("wb") as stdout, (tmp_path / "stderr").open("wb") as stderr:
        running = subprocess.Popen(
            command("--only", "memory"), stdout=stdout, stderr=stderr, env=environment(tmp_path), start_new_session=True
        )
    try:
        until(lambda: "memory with 1,000,000" in (tmp_path / "stderr").read_text(), STARTED_WITHIN)
        (data,) = tmp_path.glob("notifier-bench-*/memory/*")
        pids = [*Instance(data=data).pids().values()]
        assert pids
        os.killpg(running.pid, signal.SIGINT)
        assert running.wait(60) == 130
    finally:
        running.kill()
        running.wait()
    assert (tmp_path / "stdout").read_text() == ""
    assert "Traceback" not in (tmp_path / "stderr").read_text()
    assert [pid for pid in pids if is_running(pid)] == []
    assert [*tmp_path.glob("notifier-bench-*")] == []
