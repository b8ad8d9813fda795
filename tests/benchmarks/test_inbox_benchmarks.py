"""The inbox benchmark on a small population gets the expected responses and leaves no process."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median

import pytest

from benchmarks.inbox.baseline_and_warm_up import warm_up, write_later_pages, write_not_modified
from benchmarks.inbox.cases import BARE_PAGE, BARE_UNREAD, BY_HAND, FIRST, NOT_MODIFIED, PAGES, UNREAD, WARM, Case
from benchmarks.inbox.changed_pages import opens_after_growth
from benchmarks.inbox.cold_herd_and_api_memory import HERD, sampled
from benchmarks.inbox.first_opens import empty_cache
from benchmarks.inbox.http_requests_and_load_loops import Answered, read_answers
from benchmarks.inbox.measured_system import InboxStage
from benchmarks.inbox.population import GALA, Group, Population
from benchmarks.inbox.shared_stage_and_case_rounds import SharedInboxStage
from benchmarks.inbox.slow_store import slow
from tests.cli.running_service import is_running

pytestmark = pytest.mark.prove

SMALL = Population(
    groups=(
        Group(name="warm", users=40, follows=25),
        Group(name="vip", users=20, follows=25, vip=True),
        Group(name="one", users=3, follows=1),
        Group(name="many", users=3, follows=60),
        Group(name="most", users=2, follows=60),
        Group(name="gala", users=50, follows=1, only=GALA),
        Group(name="crowd", users=1_100, follows=5, shared=True),
    ),
    subjects=60,
)
A_FEW, WITHIN = 20, 60.0
"""Number of opens of a case, and seconds for them."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedInboxStage]:
    shared_stage = SharedInboxStage(folder=tmp_path_factory.mktemp("inbox"), profile="embedded", population=SMALL)
    try:
        yield shared_stage
    finally:
        pids = running(shared_stage)
        shared_stage.leave()
        assert [pid for pid in pids if is_running(pid)] == []


def running(shared: SharedInboxStage) -> list[int]:
    """Return the processes that the stage has started so far."""
    with suppress(AssertionError):
        stage = shared.stage(lambda message: None)
        engine = stage.cache.engine.pid
        return [*stage.instance.pids().values(), stage.client.process.pid, *([] if engine is None else [engine])]
    return []


@pytest.fixture(name="stage")
def warm_stage(shared: SharedInboxStage) -> InboxStage:
    return shared.warm_stage(lambda message: None)


def check_opens(stage: InboxStage, case: Case, count: int = A_FEW) -> None:
    measurement = stage.measure(case, connections=4, count=count, seconds=WITHIN)
    assert (measurement.reading.opens, measurement.reading.unexpected(case.status)) == (count, 0), (
        case.name,
        measurement,
    )
    assert measurement.processor_s >= 0.0


def load_answers(stage: InboxStage, case: Case, count: int) -> list[Answered]:
    path = stage.folder / f"answers-{case.name}"
    stage.load(case, connections=1, first=0, count=count, answers=str(path))
    return [*read_answers(path)]


@pytest.mark.timeout(300)
def test_every_case_gets_expected_responses(shared: SharedInboxStage, stage: InboxStage) -> None:
    warm = shared.warm(lambda message: None)
    assert [answer.status for answer in warm] == [200] * 40
    write_not_modified(stage, warm)
    write_later_pages(stage, warm)
    for case in (BARE_PAGE, BARE_UNREAD, BY_HAND, *PAGES):
        check_opens(stage, case)


@pytest.mark.timeout(300)
def test_inbox_has_one_item_per_burst_of_its_subjects(stage: InboxStage) -> None:
    """A page has 20 items. Every second of the 60 subjects has two bursts, and the first grows into one more."""
    [many_follows] = load_answers(stage, Case(name="most", requests="most"), 1)
    [one_follow] = load_answers(stage, Case(name="one", requests="one"), 1)
    [badge] = load_answers(stage, UNREAD, 1)
    assert len(many_follows.json["items"]) == 20
    assert many_follows.json["badge"] == {"count": 91, "more": False}
    assert {item["subject"] for item in one_follow.json["items"]} == {"mention:star0"}
    assert 26 <= badge.json["count"] <= 51


@pytest.mark.timeout(300)
def test_baseline_pages_have_the_size_of_product_pages(stage: InboxStage) -> None:
    product, baseline, by_hand = (load_answers(stage, case, 40) for case in (WARM, BARE_PAGE, BY_HAND))
    size = median(len(answer.body) for answer in product)
    assert [len(answer.body) for answer in baseline] == pytest.approx([size] * 40, rel=0.05)
    first = by_hand[0].json["items"]
    assert [item["subject"] for item in first] == [item["subject"] for item in product[0].json["items"]]


@pytest.mark.timeout(300)
def test_opens_after_growth_show_the_grown_burst(stage: InboxStage) -> None:
    before = mentions(stage)
    measurement = opens_after_growth(stage, 0.2)
    assert measurement.reading.unexpected(200) == 0
    assert mentions(stage) > before


def mentions(stage: InboxStage) -> int:
    [answer] = load_answers(stage, Case(name="one", requests="one"), 1)
    return sum(item["count"] for item in answer.json["items"])


@pytest.mark.timeout(300)
def test_new_process_opens_inboxes_from_redis_and_from_store(stage: InboxStage) -> None:
    for empties in (False, True):
        if empties:
            messages: list[str] = []
            empty_cache(stage, messages.append)
            assert messages == []
        old_pid = stage.api()
        stage.restart_api()
        assert stage.api() != old_pid
        assert {answer.status for answer in warm_up(stage, 10)} == {200}
        check_opens(stage, FIRST)


@pytest.mark.timeout(300)
def test_inboxes_open_while_redis_is_corrupt_or_down(stage: InboxStage) -> None:
    with stage.cache.garbled(1):
        measurement = stage.measure(WARM, connections=4, count=A_FEW, seconds=WITHIN)
        assert (measurement.reading.opens, measurement.reading.failed) == (A_FEW, 0)
    with stage.cache.stopped():
        assert not stage.cache.engine.is_listening()
        measurement = stage.measure(WARM, connections=8, rate=50.0, seconds=1.0, seed=1)
        assert measurement.reading.unexpected(200) == 0
    assert stage.cache.engine.is_listening()
    assert stage.indexed()


@pytest.mark.timeout(300)
def test_inboxes_open_while_store_is_slow(stage: InboxStage) -> None:
    with slow(stage) as slow_down, slow_down():
        check_opens(stage, WARM)
        check_opens(stage, FIRST)


@pytest.mark.timeout(300)
def test_herd_opens_inboxes_at_once_while_memory_is_sampled(stage: InboxStage) -> None:
    assert os.sysconf("SC_OPEN_MAX") >= 100
    with sampled(stage) as samples:
        measurement = stage.measure(HERD, connections=50, count=50, seconds=WITHIN)
    assert (measurement.reading.opens, measurement.reading.unexpected(200)) == (50, 0)
    assert samples.mb
    assert all(mb > 0 for mb in samples.mb)


def test_request_files_match_their_users(stage: InboxStage) -> None:
    assert stage.files.count("everybody") == sum(group.users for group in SMALL.groups)
    assert stage.files.count(NOT_MODIFIED.requests) == 40
    assert Path(stage.files.path("warm")).exists()
    with pytest.raises(KeyError):
        stage.files.path("nobody")
