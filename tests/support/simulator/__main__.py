"""Plays seeds and prints the shortest failing script: `python -m tests.support.simulator`."""

import argparse
import sys
from dataclasses import replace

from tests.support.simulator.random_script import random_script
from tests.support.simulator.run_and_shorten import shortened, trial
from tests.support.simulator.scenarios.delivery_scenarios_and_fault_points import SCENARIOS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.simulator", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds")
    parser.add_argument("--steps", type=int, default=1_500)
    parser.add_argument("--scenario", choices=SCENARIOS, help="this scenario instead of random scripts")
    parser.add_argument("--faults", type=int, default=None, help="number of faults; by default the seed decides")
    parser.add_argument("--verbose", action="store_true", help="print the events of passing runs, too")
    parser.add_argument("--no-shorten", action="store_true", help="do not shorten the failing script")
    arguments = parser.parse_args()
    for seed in range(arguments.seed, arguments.seed + arguments.seeds):
        if arguments.scenario:
            script = replace(SCENARIOS[arguments.scenario](), seed=seed)
        else:
            script = random_script(seed, steps=arguments.steps, faults=arguments.faults)
        result = trial(script)
        if result.wrong:
            print(result if arguments.no_shorten else shortened(result))
            return 1
        if arguments.verbose:
            print(result)
    print(f"{arguments.seeds} seeds passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
