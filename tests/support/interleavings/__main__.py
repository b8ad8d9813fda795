"""Runs scenarios by name, or all; exit code 1 if an order fails."""

import sys
from itertools import islice

from tests.support.interleavings.scenarios import SCENARIOS


def main(names: list[str]) -> int:
    for name in names or SCENARIOS:
        for failure in islice(SCENARIOS[name].failures(), 1):
            print(f"{name}: {failure}")
            return 1
    return 0


sys.exit(main(sys.argv[1:]))
