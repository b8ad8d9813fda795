"""Runs scenarios by name, or all; exit code 1 if an order fails."""

import sys
from collections.abc import Mapping
from itertools import islice

from tests.support.interleavings.scenarios import SCENARIOS, Scenario
from tests.support.interleavings.shared_request_scenarios import SHARED_REQUESTS, SharedRequests

ALL: Mapping[str, Scenario | SharedRequests] = {**SCENARIOS, **SHARED_REQUESTS}


def main(names: list[str]) -> int:
    for name in names or ALL:
        for failure in islice(ALL[name].failures(), 1):
            print(f"{name}: {failure}")
            return 1
    return 0


sys.exit(main(sys.argv[1:]))
