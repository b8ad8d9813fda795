"""The sentence of `explain` about a user in an audience snapshot."""

import pytest

from notifier.cli.commands.explain.command import snapshot_sentence


@pytest.mark.parametrize(
    ("tier", "push", "expected"),
    [
        ("p1", True, "in p1, to be alerted"),
        ("p2", False, "in p2"),
        (None, False, "in no tier; shard 3 has 1,200 dormant members"),
        (None, True, "in no tier, to be alerted; shard 3 has 1,200 dormant members"),
    ],
)
def test_snapshot_sentence_says_the_tier_and_the_alert(tier: str | None, push: bool, expected: str) -> None:
    assert snapshot_sentence({"shard": 3, "tier": tier, "push": push, "dormant_in_shard": 1_200}) == expected


def test_burst_without_snapshot_says_so() -> None:
    assert snapshot_sentence(None) == "none yet, or expired"
