"""docs/benchmarks.md and its pictures are what the stored envelopes make: nobody edits a result by hand."""

import json
from pathlib import Path

from benchmarks.__main__ import bench
from benchmarks.report.__main__ import BENCHES, PAGE, PICTURES, STORE
from benchmarks.report.markdown import pictures, results, with_results
from benchmarks.report.store import Run, read, write
from tests.repo.test_documents import HOME


def test_the_results_on_the_page_are_those_that_are_stored() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_results(page, results(read(STORE))) == page


def test_the_pictures_are_drawn_from_what_is_stored() -> None:
    assert {path.name: path.read_text(encoding="utf-8") for path in PICTURES.glob("bench-*.svg")} == pictures(
        read(STORE)
    )


def test_the_stored_envelopes_name_nobodys_machine() -> None:
    assert HOME.findall(STORE.read_text(encoding="utf-8")) == []


def test_every_bench_of_the_list_is_a_verb() -> None:
    assert {verb for verb, *_ in BENCHES.values()} | {"peers"} <= set(bench.commands)
    assert {*read(STORE)} <= {*BENCHES, "peers"}


def test_a_path_in_a_cause_is_not_stored(tmp_path: Path) -> None:
    detail = "The part a ended with OSError: no room: '/tmp/notifier-bench-x/large/core.db'; 5 deliveries/s, and/or"
    checks = {"checks": [{"detail": detail}]}
    write(tmp_path / "s.json", {"a": Run(command="a", commit="b", date="c", machine={}, envelope=checks)})
    stored = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    [found] = stored["a"]["envelope"]["checks"]
    assert found["detail"] == "The part a ended with OSError: no room: '…'; 5 deliveries/s, and/or"
    assert read(tmp_path / "s.json")["a"].command == "a"
