"""Random courses with every kind of fault at random steps; a failing seed tells its shortest story."""

import pytest

from tests.support.simulator.random_script import scripted
from tests.support.simulator.run import shortest, trial

CHUNK = 25
CHUNKS = 10
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
def test_every_promise_is_kept_whatever_goes_wrong(first: int) -> None:
    for seed in range(first, first + CHUNK):
        done = trial(scripted(seed))
        assert not done.wrong, f"{shortest(done)}"
