"""The bench of the inbox on a small population: every case gets the answers it expects, and nothing is left running."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median

import pytest

from benchmarks.inbox.cases import BARE_PAGE, BARE_UNREAD, BY_HAND, FIRST, NOT_MODIFIED, PAGES, UNREAD, WARM, Case
from benchmarks.inbox.client import Answered, read_answers
from benchmarks.inbox.compare import warmed, write_not_modified, write_pages_behind
from benchmarks.inbox.crowd import HERD, sampled
from benchmarks.inbox.first_opens import empty_cache
from benchmarks.inbox.news import grown_and_opened
from benchmarks.inbox.population import GALA, Group, Population
from benchmarks.inbox.shared_stage import Shared
from benchmarks.inbox.stage import Stage
from benchmarks.inbox.store_faults import slow
from tests.cli.running import lives

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
"""Opens of a case, and seconds for them."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    found = Shared(folder=tmp_path_factory.mktemp("inbox"), profile="embedded", population=SMALL)
    try:
        yield found
    finally:
        pids = running(found)
        found.leave()
        assert [pid for pid in pids if lives(pid)] == []


def running(shared: Shared) -> list[int]:
    """What the stage has started, as far as it has come."""
    with suppress(AssertionError):
        stage = shared.stage(lambda words: None)
        engine = stage.cache.engine.pid
        return [*stage.instance.pids().values(), stage.client.aside.pid, *([] if engine is None else [engine])]
    return []


@pytest.fixture(name="stage")
def warm_stage(shared: Shared) -> Stage:
    return shared.warm_stage(lambda words: None)


def opened(stage: Stage, case: Case, count: int = A_FEW) -> None:
    found = stage.measure(case, connections=4, count=count, seconds=WITHIN)
    assert (found.reading.opens, found.reading.unexpected(case.status)) == (count, 0), (case.name, found)
    assert found.processor_s >= 0.0


def answers(stage: Stage, case: Case, count: int) -> list[Answered]:
    place = stage.folder / f"answers-{case.name}"
    stage.load(case, connections=1, first=0, count=count, answers=str(place))
    return [*read_answers(place)]


@pytest.mark.timeout(300)
def test_every_case_has_the_answers_that_it_expects(shared: Shared, stage: Stage) -> None:
    warm = shared.warm(lambda words: None)
    assert [answer.status for answer in warm] == [200] * 40
    write_not_modified(stage, warm)
    write_pages_behind(stage, warm)
    for case in (BARE_PAGE, BARE_UNREAD, BY_HAND, *PAGES):
        opened(stage, case)


@pytest.mark.timeout(300)
def test_users_have_as_many_items_as_their_subjects_have_bursts(stage: Stage) -> None:
    """Each page is of 20; every second of the 60 subjects has two bursts, and the first one grows in a burst more."""
    [most] = answers(stage, Case(name="most", requests="most"), 1)
    [one] = answers(stage, Case(name="one", requests="one"), 1)
    [badge] = answers(stage, UNREAD, 1)
    assert len(most.json["items"]) == 20
    assert most.json["badge"] == {"count": 91, "more": False}
    assert {item["subject"] for item in one.json["items"]} == {"mention:star0"}
    assert 26 <= badge.json["count"] <= 51


@pytest.mark.timeout(300)
def test_the_baseline_and_the_inbox_by_hand_answer_with_pages_of_the_products_size(stage: Stage) -> None:
    ours, bare, by_hand = (answers(stage, case, 40) for case in (WARM, BARE_PAGE, BY_HAND))
    size = median(len(answer.body) for answer in ours)
    assert [len(answer.body) for answer in bare] == pytest.approx([size] * 40, rel=0.05)
    first = by_hand[0].json["items"]
    assert [item["subject"] for item in first] == [item["subject"] for item in ours[0].json["items"]]


@pytest.mark.timeout(300)
def test_every_user_sees_a_burst_that_has_grown(stage: Stage) -> None:
    before = mentions(stage)
    found = grown_and_opened(stage, 0.2)
    assert found.reading.unexpected(200) == 0
    assert mentions(stage) > before


def mentions(stage: Stage) -> int:
    [answer] = answers(stage, Case(name="one", requests="one"), 1)
    return sum(item["count"] for item in answer.json["items"])


@pytest.mark.timeout(300)
def test_a_new_process_opens_inboxes_from_redis_and_from_the_store(stage: Stage) -> None:
    for empties in (False, True):
        if empties:
            told: list[str] = []
            empty_cache(stage, told.append)
            assert told == []
        old = stage.api()
        stage.restart_api()
        assert stage.api() != old
        assert {answer.status for answer in warmed(stage, 10)} == {200}
        opened(stage, FIRST)


@pytest.mark.timeout(300)
def test_inboxes_open_while_redis_is_garbled_and_gone(stage: Stage) -> None:
    with stage.cache.garbled(1):
        found = stage.measure(WARM, connections=4, count=A_FEW, seconds=WITHIN)
        assert (found.reading.opens, found.reading.failed) == (A_FEW, 0)
    with stage.cache.gone():
        assert not stage.cache.engine.answers()
        found = stage.measure(WARM, connections=8, rate=50.0, seconds=1.0, seed=1)
        assert found.reading.unexpected(200) == 0
    assert stage.cache.engine.answers()
    assert stage.indexed()


@pytest.mark.timeout(300)
def test_inboxes_open_while_the_store_is_slow(stage: Stage) -> None:
    with slow(stage) as strike, strike():
        opened(stage, WARM)
        opened(stage, FIRST)


@pytest.mark.timeout(300)
def test_a_herd_opens_at_once_while_memory_is_sampled(stage: Stage) -> None:
    assert os.sysconf("SC_OPEN_MAX") >= 100
    with sampled(stage) as samples:
        found = stage.measure(HERD, connections=50, count=50, seconds=WITHIN)
    assert (found.reading.opens, found.reading.unexpected(200)) == (50, 0)
    assert samples.mb
    assert all(mb > 0 for mb in samples.mb)


def test_files_of_requests_are_those_of_their_users(stage: Stage) -> None:
    assert stage.files.count("everybody") == sum(group.users for group in SMALL.groups)
    assert stage.files.count(NOT_MODIFIED.requests) == 40
    assert Path(stage.files.path("warm")).exists()
    with pytest.raises(KeyError):
        stage.files.path("nobody")
