"""`python -m tests.support.simulator`: plays seeds, and tells the shortest story of the first that fails."""

import argparse
import sys
from dataclasses import replace

from tests.support.simulator.random_script import scripted
from tests.support.simulator.run import shortest, trial
from tests.support.simulator.scenarios.catalog import COURSES


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.simulator", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--steps", type=int, default=1_500)
    parser.add_argument("--course", choices=COURSES, help="this course of events instead of the dice's")
    parser.add_argument("--faults", type=int, default=None, help="how many; by default the seed decides")
    parser.add_argument("--story", action="store_true", help="tell what happened even when all went well")
    parser.add_argument("--whole", action="store_true", help="don't look for a shorter story")
    given = parser.parse_args()
    for seed in range(given.seed, given.seed + given.seeds):
        if given.course:
            script = replace(COURSES[given.course](), seed=seed)
        else:
            script = scripted(seed, steps=given.steps, faults=given.faults)
        done = trial(script)
        if done.wrong:
            print(done if given.whole else shortest(done))
            return 1
        if given.story:
            print(done)
    print(f"{given.seeds} seeds, and every promise was kept")
    return 0


if __name__ == "__main__":
    sys.exit(main())
