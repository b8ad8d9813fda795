"""The harness finds what it is there for: each patch plants one fault of design, and a few runs must tell.

A patch begins with the sentence that says what is wrong with it. One that doesn't apply any more is to be made anew.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.repo.sources import ROOT
from tests.simulation.test_seeds import CHUNK, CHUNKS
from tests.support.simulator.run import trial
from tests.support.simulator.scenarios.catalog import COURSES

OF_CACHES = {
    "cache_adopted_page_kept_after_a_change": "retract, remembered",
    "cache_change_never_finished": "unfollow, wipe",
    "cache_changing_facts_kept": "unfollow, cold",
    "cache_connection_not_compared": "unfollow, fail over",
    "cache_eviction_unnoticed": "retract, 4000 bytes, warm",
    "cache_extended_over_a_gap": "mention, shallow",
    "cache_facts_kept_after_distrust": "unfollow without Redis",
    "cache_feed_begun_with_full_caches": "retract without Redis, idle, warm",
    "cache_feed_begun_with_old_bursts": "retract without Redis, idle, warm",
    "cache_feed_begun_with_old_facts": "unfollow without Redis, idle, warm",
    "cache_filled_by_a_load_that_nobody_followed": "mention, crowd, cold",
    "cache_filled_without_recent_changes": "mention, another",
    "cache_invalidated_before_the_write_only": "unfollow, cold",
    "cache_lapse_ignored": "unfollow, outage",
    "cache_lapse_not_recorded": "unfollow, outage",
    "cache_loaded_change_not_heard": "retract, 7500 bytes, warm",
    "cache_mark_removed_after_a_failed_write": "time_out, cold",
    "cache_mark_set_after_the_write": "die, cold",
    "cache_news_gap_ignored": "retract, wipe",
    "cache_page_adopted_after_a_change": "retract, remembered",
    "cache_version_planted_after_the_facts": "unfollow, cold",
}
"""Faults of the inbox caches, and the scenario of `tests.support.interleavings` that finds each."""
CACHE_PATCHES = sorted(Path(__file__).parent.glob("cache_*.patch"))
PATCHES = sorted({*Path(__file__).parent.glob("*.patch")} - {*CACHE_PATCHES})
SEEDS = {
    "back": range(2),
    "quarrel": range(1),
    "moving": range(3),
    "retries": range(3),
    "pause": range(2),
    "look": range(2),
    "first": range(8, 14),
    "zombies": range(7, 11),
    "dialling": range(1),
    "redialling": range(1),
    "nights": range(3),
    "mornings": range(3),
    "reopening": range(2),
}
"""Of the courses, from one that tells at once; then the dice's own."""
OWN = range(250)
OWN_FROM = {"token_without_settling": range(210, 250)}
"""Where hardly a seed tells, those that come before the first that does would only take their time."""
REASONS = {
    "collapsed_into_a_pending_newer": "which is said to be collapsed, and isn't",
    "head_before_blob": "doesn't name shard",
    "loser_not_told": "the bitmap push has",
    "set_written_without_stamp": "the bitmap followers of",
    "retraction_after_the_trails": "retracted: False",
    "sent_kept_in_redis_only": "as if for the first time",
    **dict.fromkeys(("mark_before_send", "mark_after_send_without_intent", "retry_by_member"), "without an intent"),
}
"""What is said of a fault that could be found by what it isn't."""
TOLD_BY = {
    **dict.fromkeys(
        (
            "badge_from_a_counter",
            "mention_not_settled_after_writing",
            "offset_before_effect",
            "row_key_from_now",
        ),
        "back",
    ),
    **dict.fromkeys(("alerts_by_the_seal_alone", "what_a_block_hid_comes_back"), "quarrel"),
    **dict.fromkeys(("claim_without_expiry", "tiers_by_live_activity_on_retry"), "retries"),
    **dict.fromkeys(
        ("mark_before_send", "mark_after_send_without_intent", "retry_by_member", "sent_kept_in_redis_only"),
        "redialling",
    ),
    "collapsed_into_a_pending_newer": "mornings",
    "parked_slices_forgotten": "pause",
    "head_before_blob": "first",
    "set_written_without_stamp": "zombies",
    "loser_not_told": "dialling",
    "tiers_from_live_sets": "moving",
}
"""The course that tells of a fault; the others are told by the dice's own seeds."""


def plays(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """0 when every promise was kept, 1 when not; anything else is no verdict."""
    return run(folder, "tests.support.simulator", "--whole", *arguments)


def run(folder: Path, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def of(seeds: range) -> Sequence[str]:
    return "--seed", str(seeds.start), "--seeds", str(len(seeds))


def apply(patch: Path, folder: Path) -> None:
    subprocess.run(
        ["git", "apply", str(patch)], cwd=folder, check=True, env={"GIT_CEILING_DIRECTORIES": str(folder.parent)}
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for package in ("notifier", "workers", "tests/support"):
        shutil.copytree(ROOT / package, tmp_path / package)  # with the bytecode: a plant is compiled anew alone
    return tmp_path


def test_the_copy_without_a_patch_keeps_every_promise(copy: Path) -> None:
    """Of the dice's own seeds a few stand for all: the simulation's tests play them all, of the same scripts."""
    assert OWN.stop <= CHUNK * CHUNKS
    done = plays(copy, *of(range(5)))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(180)
@pytest.mark.parametrize("course", SEEDS)
def test_without_a_patch_a_course_keeps_every_promise(course: str) -> None:
    """Played here and not in a copy, which would be of the same code and want an interpreter for each course."""
    done = [trial(replace(COURSES[course](), seed=seed)) for seed in SEEDS[course]]
    assert [str(one) for one in done if one.wrong] == []


@pytest.mark.timeout(180)
@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_a_planted_fault_is_found(copy: Path, patch: Path) -> None:
    apply(patch, copy)
    course = TOLD_BY.get(patch.stem)
    played = ("--course", course, *of(SEEDS[course])) if course else of(OWN_FROM.get(patch.stem, OWN))
    done = plays(copy, *played)
    assert done.returncode == 1, f"{patch.read_text().splitlines()[0]}\nNobody noticed: {done.stdout}{done.stderr}"
    told = done.stdout.partition("and then:")[2]
    assert told
    assert REASONS.get(patch.stem, "") in told


@pytest.mark.parametrize("patch", CACHE_PATCHES, ids=lambda patch: patch.stem)
def test_planted_cache_fault_is_found(copy: Path, patch: Path) -> None:
    """Without a patch the scenario passes: tests/flow/test_cache_interleavings.py runs all of them."""
    apply(patch, copy)
    scenario = OF_CACHES[patch.stem]
    done = run(copy, "tests.support.interleavings", scenario)
    assert done.returncode == 1, f"{patch.read_text().splitlines()[0]}\nNo order failed: {done.stdout}{done.stderr}"
    assert done.stdout.startswith(f"{scenario}: ")
