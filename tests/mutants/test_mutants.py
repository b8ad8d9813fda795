"""Each patch plants one bug, and a few runs must find it."""

# The first line of a patch says what is wrong with it. A patch that no longer applies must be written again.

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.repo.repository_files import ROOT
from tests.simulation.test_random_scenarios import CHUNK, PROVED
from tests.support.interleavings.scenarios import SCENARIOS as INTERLEAVINGS
from tests.support.interleavings.shared_request_scenarios import SHARED_REQUESTS
from tests.support.simulator.run_and_shorten import trial
from tests.support.simulator.scenarios.delivery_scenarios_and_fault_points import SCENARIOS

pytestmark = pytest.mark.thorough

CACHE_SCENARIOS = {
    "cache_adopted_page_kept_after_a_change": "retract, remembered",
    "cache_not_invalidated_after_the_write": "unfollow, wipe",
    "cache_changing_facts_kept": "unfollow, cold",
    "cache_facts_trusted_after_failover": "unfollow, fail over",
    "cache_eviction_unnoticed": "retract, 4000 bytes, warm",
    "cache_extended_over_a_gap": "mention, shallow",
    "cache_facts_kept_after_distrust": "unfollow without Redis",
    "cache_feed_begun_with_full_caches": "retract without Redis, idle, warm",
    "cache_feed_begun_with_old_bursts": "retract without Redis, idle, warm",
    "cache_feed_begun_with_old_facts": "unfollow without Redis, idle, warm",
    "cache_filled_despite_missed_changes": "mention, crowd, cold",
    "cache_filled_without_recent_changes": "mention, another",
    "cache_invalidated_before_the_write_only": "unfollow, cold",
    "cache_lapse_ignored": "unfollow, outage",
    "cache_lapse_not_recorded": "unfollow, outage",
    "cache_loaded_change_missed": "retract, 7500 bytes, warm",
    "cache_placeholder_removed_after_a_failed_write": "time_out, cold",
    "cache_placeholder_set_after_the_write": "die, cold",
    "cache_stream_gap_ignored": "retract, wipe",
    "cache_page_adopted_after_a_change": "retract, remembered",
    "cache_page_kept_for_other_facts": "unfollow without Redis",
    "cache_version_inserted_after_the_facts": "unfollow, cold",
    "cache_page_load_joined_after_its_begin": "shared, mark, cold",
    "cache_page_shared_by_other_facts": "shared, mark after news",
    "cache_restarted_while_a_load_is_joined": "shared, mention, restart",
    "cache_look_up_joined_after_it_was_sent": "shared, retract, forgotten",
}
"""Bugs in the inbox caches, and the scenario of `tests.support.interleavings` that finds each."""
CACHE_PATCHES = sorted(Path(__file__).parent.glob("cache_*.patch"))
PATCHES = sorted({*Path(__file__).parent.glob("*.patch")} - {*CACHE_PATCHES})
SEEDS = {
    "many_retractions": range(2),
    "user_blocks": range(1),
    "moving_sets": range(3),
    "retries": range(3),
    "paused_tier": range(2),
    "returning_user": range(2),
    "first_followers": range(8, 14),
    "stalled_indexers": range(7, 11),
    "device_changes": range(1),
    "device_retries": range(1),
    "quiet_hours": range(3),
    "after_quiet_hours": range(3),
    "reopening": range(2),
}
"""Seeds of each scenario, beginning with one that finds its bugs at once."""
RANDOM_SEEDS = range(250)
RANDOM_SEEDS_BY_PATCH = {"seen_token_covers_late_bursts": range(210, 250)}
"""If few seeds find the bug, the range skips earlier seeds that would only take time."""
REASONS = {
    "alert_collapsed_into_unsent_newer_one": "for the false reason collapsed",
    "shard_filled_before_head_lists_it": "counts no follower in shard",
    "bitmap_of_former_device_owner_kept": "the bitmap push has",
    "bitmap_written_without_fencing_token": "the bitmap followers of",
    "retraction_after_its_keys": "retracted: False",
    "send_log_kept_in_redis_only": "as if for the first time",
    **dict.fromkeys(
        ("batch_closed_before_sending", "batch_recorded_after_sending", "retry_to_devices_that_accepted"),
        "without an intent",
    ),
}
"""Part of the expected message, for bugs that could be found by an unrelated check."""
SCENARIO_BY_PATCH = {
    **dict.fromkeys(
        (
            "badge_counted_without_the_predicate",
            "retractions_unchecked_after_writing_mention",
            "offset_before_effect",
            "row_key_from_time_of_writing",
        ),
        "many_retractions",
    ),
    **dict.fromkeys(("alerts_ignore_actions_after_snapshot", "unblock_shows_hidden_bursts"), "user_blocks"),
    **dict.fromkeys(("claim_without_expiry", "tiers_by_live_activity_on_retry"), "retries"),
    **dict.fromkeys(
        (
            "batch_closed_before_sending",
            "batch_recorded_after_sending",
            "retry_to_devices_that_accepted",
            "send_log_kept_in_redis_only",
        ),
        "device_retries",
    ),
    "alert_collapsed_into_unsent_newer_one": "after_quiet_hours",
    "parked_slices_forgotten": "paused_tier",
    "shard_filled_before_head_lists_it": "first_followers",
    "bitmap_written_without_fencing_token": "stalled_indexers",
    "bitmap_of_former_device_owner_kept": "device_changes",
    "tiers_from_live_sets": "moving_sets",
}
"""The scenario that finds each bug; the random seeds find all others."""


def run_simulator(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the simulator: exit code 0 if all invariants held, 1 if not; any other is no result."""
    return run(folder, "tests.support.simulator", "--no-shorten", *arguments)


def run(folder: Path, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def seed_arguments(seeds: range) -> Sequence[str]:
    return "--seed", str(seeds.start), "--seeds", str(len(seeds))


def apply_patch(patch: Path, folder: Path) -> None:
    subprocess.run(
        ["git", "apply", str(patch)], cwd=folder, check=True, env={"GIT_CEILING_DIRECTORIES": str(folder.parent)}
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for package in ("notifier", "workers", "tests/support"):
        shutil.copytree(ROOT / package, tmp_path / package)  # with bytecode: only changed modules are compiled
    return tmp_path


def test_unpatched_copy_keeps_all_invariants(copy: Path) -> None:
    """A few random seeds are enough here: the tests of `make prove` run all of them."""
    assert RANDOM_SEEDS.stop <= CHUNK * PROVED
    result = run_simulator(copy, *seed_arguments(range(5)))
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.timeout(180)
@pytest.mark.parametrize("scenario", SEEDS)
def test_scenario_without_a_patch_keeps_all_invariants(scenario: str) -> None:
    """Runs in this process: a copy would have the same code and need an interpreter per scenario."""
    results = [trial(replace(SCENARIOS[scenario](), seed=seed)) for seed in SEEDS[scenario]]
    assert [str(result) for result in results if result.wrong] == []


@pytest.mark.timeout(180)
@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_planted_bug_is_found(copy: Path, patch: Path) -> None:
    apply_patch(patch, copy)
    scenario = SCENARIO_BY_PATCH.get(patch.stem)
    arguments = (
        ("--scenario", scenario, *seed_arguments(SEEDS[scenario]))
        if scenario
        else seed_arguments(RANDOM_SEEDS_BY_PATCH.get(patch.stem, RANDOM_SEEDS))
    )
    result = run_simulator(copy, *arguments)
    assert result.returncode == 1, (
        f"{patch.read_text().splitlines()[0]}\nNo run found the bug: {result.stdout}{result.stderr}"
    )
    failure = result.stdout.partition("and then:")[2]
    assert failure
    assert REASONS.get(patch.stem, "") in failure


@pytest.mark.parametrize("name", sorted({*CACHE_SCENARIOS.values()} - {*SHARED_REQUESTS}))
def test_cache_scenario_without_a_patch_passes(name: str) -> None:
    assert [*INTERLEAVINGS[name].failures()] == []


@pytest.mark.parametrize("patch", CACHE_PATCHES, ids=lambda patch: patch.stem)
def test_planted_cache_bug_is_found(copy: Path, patch: Path) -> None:
    apply_patch(patch, copy)
    scenario = CACHE_SCENARIOS[patch.stem]
    result = run(copy, "tests.support.interleavings", scenario)
    assert result.returncode == 1, (
        f"{patch.read_text().splitlines()[0]}\nNo interleaving failed: {result.stdout}{result.stderr}"
    )
    assert result.stdout.startswith(f"{scenario}: ")
