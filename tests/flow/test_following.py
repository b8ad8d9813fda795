"""Follows from the gateway to what a person sees and gets."""

from tests.support.in_memory_system import LYRA, Stage


def members(stage: Stage, *names: str) -> set[int]:
    return {stage.scene.people[name].member for name in names}


def test_follow_after_open_hidden() -> None:
    """Who follows sees what opens from then on, and nothing of before."""
    stage = Stage()
    stage.mention("lyra")
    stage.pass_time(minutes=2)
    stage.followed("kim", "lyra", sequence=1)
    assert stage.sees("kim") == []
    stage.mention("lyra")
    stage.deliver()
    assert stage.sees("kim") == ["mention:lyra#2"]
    [second] = [stored.row for stored in stage.ground.archive.rows() if stored.row.burst.seq == 2][:1]
    assert second.burst.subject == LYRA
    assert members(stage, "kim") <= stage.reached(LYRA)


def test_unfollow_not_undone() -> None:
    """Who leaves sees nothing and gets nothing, and a late follow doesn't bring it back."""
    stage = Stage()
    stage.followed("lee", "lyra", sequence=9, ended=True)
    stage.followed("lee", "lyra", sequence=8)
    stage.mention("lyra")
    stage.deliver()
    assert stage.sees("lee") == []
    assert not members(stage, "lee") & stage.reached(LYRA)


def test_a_follow_that_is_said_twice_is_one() -> None:
    stage = Stage()
    for _ in range(2):
        stage.followed("kim", "lyra", sequence=3)
    stage.mention("lyra")
    stage.deliver()
    assert stage.sees("kim") == ["mention:lyra#1"]


def test_somebody_nobody_has_heard_of_is_known_by_whom_he_follows() -> None:
    stage = Stage()
    stage.followed("zoe", "lyra", sequence=1)
    stage.mention("lyra")
    stage.deliver()
    assert stage.sees("zoe") == ["mention:lyra#1"]


def test_an_account_s_first_follower_makes_its_audience() -> None:
    stage = Stage()
    stage.followed("kim", "ada", sequence=1)
    stage.mention("ada", author="bob")
    stage.deliver()
    assert stage.sees("kim") == ["mention:ada#1"]
