"""docs/benchmarks.md and its pictures are generated from the stored results."""

import json
from pathlib import Path

from benchmarks.__main__ import bench
from benchmarks.report.__main__ import BENCHES, PAGE, PICTURES, STORE
from benchmarks.report.markdown import pictures, results, with_results
from benchmarks.report.stored_results import Run, read, write
from tests.repo.test_documents import HOME


def test_results_page_matches_the_stored_results() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_results(page, results(read(STORE))) == page


def test_pictures_match_the_stored_results() -> None:
    assert {path.name: path.read_text(encoding="utf-8") for path in PICTURES.glob("bench-*.svg")} == pictures(
        read(STORE)
    )


def test_stored_results_contain_no_home_folder() -> None:
    assert HOME.findall(STORE.read_text(encoding="utf-8")) == []


def test_every_listed_benchmark_is_a_command() -> None:
    assert {verb for verb, *_ in BENCHES.values()} | {"peers"} <= set(bench.commands)
    assert {*read(STORE)} <= {*BENCHES, "peers"}


def test_paths_in_error_messages_are_not_stored(tmp_path: Path) -> None:
    detail = "part a failed with OSError: no room: '/tmp/notifier-bench-x/large/core.db'; 5 deliveries/s, and/or"
    checks = {"checks": [{"detail": detail}]}
    write(tmp_path / "s.json", {"a": Run(command="a", commit="b", date="c", machine={}, envelope=checks)})
    stored = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    [check] = stored["a"]["envelope"]["checks"]
    assert check["detail"] == "part a failed with OSError: no room: '…'; 5 deliveries/s, and/or"
    assert read(tmp_path / "s.json")["a"].command == "a"
