"""Follows, from the gateway to inbox and alerts."""

from tests.support.in_memory_system import LYRA, Stage


def members(stage: Stage, *names: str) -> set[int]:
    return {stage.population.people[name].member for name in names}


def test_new_follower_sees_only_bursts_that_open_later() -> None:
    stage = Stage()
    stage.mention("lyra")
    stage.pass_time(minutes=2)
    stage.followed("kim", "lyra", sequence=1)
    assert stage.sees("kim") == []
    stage.mention("lyra")
    stage.deliver()
    assert stage.sees("kim") == ["mention:lyra#2"]
    assert members(stage, "kim") <= stage.reached(LYRA)


def test_late_follow_does_not_undo_an_unfollow() -> None:
    stage = Stage()
    stage.followed("lee", "lyra", sequence=9, ended=True)
    stage.followed("lee", "lyra", sequence=8)
    stage.mention("lyra")
    stage.deliver()
    assert stage.sees("lee") == []
    assert not members(stage, "lee") & stage.reached(LYRA)


def test_repeated_follow_counts_once() -> None:
    stage = Stage()
    for _ in range(2):
        stage.followed("kim", "lyra", sequence=3)
    stage.mention("lyra")
    stage.deliver()
    assert stage.sees("kim") == ["mention:lyra#1"]


def test_unknown_follower_gets_an_inbox() -> None:
    stage = Stage()
    stage.followed("zoe", "lyra", sequence=1)
    stage.mention("lyra")
    stage.deliver()
    assert stage.sees("zoe") == ["mention:lyra#1"]


def test_first_follower_of_an_account_gets_its_bursts() -> None:
    stage = Stage()
    stage.followed("kim", "ada", sequence=1)
    stage.mention("ada", author="bob")
    stage.deliver()
    assert stage.sees("kim") == ["mention:ada#1"]
