"""Invariants hold under faults at random steps; a failing seed reports its shortest script."""

import pytest

from tests.support.simulator.random_script import random_script
from tests.support.simulator.run_and_shorten import shortened, trial

CHUNK = 25
CHUNKS = 4
PROVED = 80
"""Chunks that `make prove` runs."""


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "first",
    [
        *range(0, CHUNK * CHUNKS, CHUNK),
        *(pytest.param(first, marks=pytest.mark.prove) for first in range(CHUNK * CHUNKS, CHUNK * PROVED, CHUNK)),
    ],
)
def test_invariants_hold_under_random_faults(first: int) -> None:
    for seed in range(first, first + CHUNK):
        result = trial(random_script(seed))
        assert not result.wrong, f"{shortened(result)}"
