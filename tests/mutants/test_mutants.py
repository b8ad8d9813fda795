"""The harness finds what it is there for: each patch plants one fault of design, and a few runs must tell.

A patch begins with the sentence that says what is wrong with it. One that doesn't apply any more is to be made anew.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.repo.sources import ROOT
from tests.simulation.test_seeds import CHUNK, CHUNKS

PATCHES = sorted(Path(__file__).parent.glob("*.patch"))
SEEDS = {
    "back": 1,
    "quarrel": 1,
    "moving": 3,
    "retries": 3,
    "pause": 2,
    "look": 2,
    "first": 9,
    "zombies": 8,
    "dialling": 1,
    "redialling": 1,
    "nights": 3,
    "mornings": 3,
}
"""Of the courses; then the dice's own."""
OWN = ("--seeds", "250")
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
    return subprocess.run(
        [sys.executable, "-m", "notifier.testing.simulator", "--whole", *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def of_course(course: str) -> Sequence[str]:
    return "--course", course, "--seeds", str(SEEDS[course])


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for package in ("notifier", "workers"):
        shutil.copytree(ROOT / package, tmp_path / package)  # with the bytecode: a plant is compiled anew alone
    return tmp_path


@pytest.mark.timeout(180)
def test_the_copy_without_a_patch_keeps_every_promise(copy: Path) -> None:
    """Of the dice's own seeds a few stand for all: the simulation's tests play them all, of the same scripts."""
    assert int(OWN[1]) <= CHUNK * CHUNKS
    for arguments in (*map(of_course, SEEDS), ("--seeds", "5")):
        done = plays(copy, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(180)
@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_a_planted_fault_is_found(copy: Path, patch: Path) -> None:
    subprocess.run(
        ["git", "apply", str(patch)], cwd=copy, check=True, env={"GIT_CEILING_DIRECTORIES": str(copy.parent)}
    )
    done = plays(copy, *(of_course(TOLD_BY[patch.stem]) if patch.stem in TOLD_BY else OWN))
    assert done.returncode == 1, f"{patch.read_text().splitlines()[0]}\nNobody noticed: {done.stdout}{done.stderr}"
    told = done.stdout.partition("and then:")[2]
    assert told
    assert REASONS.get(patch.stem, "") in told
