"""Follows from the gateway to what a person sees and gets."""

from tests.flow.stage import LYRA, Stage


def members(stage: Stage, *names: str) -> set[int]:
    return {stage.scene.people[name].member for name in names}


def test_who_follows_sees_what_opens_from_then_on_and_nothing_of_before() -> None:
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


def test_who_leaves_sees_nothing_and_gets_nothing_and_a_late_follow_doesn_t_bring_it_back() -> None:
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
