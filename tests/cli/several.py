"""Several verbs after one another in one process, whose start costs more than they do: a JSON list of words each."""

import json
import sys

from notifier.cli import main

BETWEEN = "\f"
"""On a line of its own behind each."""


def each(lists: list[str]) -> None:
    """Ends with the code of the first verb that fails."""
    for words in lists:
        code = main.main(json.loads(words), prog_name="notifier", standalone_mode=False)
        if code:
            sys.exit(code)
        print(BETWEEN, flush=True)


if __name__ == "__main__":
    each(sys.argv[1:])
