"""How far one mentioner's mentions carry."""

import pytest

from notifier.domain.reach import Verdict, verdict


@pytest.mark.parametrize("standing", list(Verdict))
def test_within_the_cap_the_standing_decides(standing: Verdict) -> None:
    assert verdict(standing, True) is standing


@pytest.mark.parametrize(
    ("standing", "reach"),
    [
        (Verdict.ALL, Verdict.ROW),
        (Verdict.ROW, Verdict.ROW),
        (Verdict.HOLD, Verdict.HOLD),
        (Verdict.DENY, Verdict.DENY),
    ],
)
def test_over_the_cap_no_phone_is_woken_and_nothing_gets_wider(standing: Verdict, reach: Verdict) -> None:
    assert verdict(standing, False) is reach
