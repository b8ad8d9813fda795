"""Serves the in-memory system and prints its port: `python -m tests.support.serve_in_memory_api HOST PORT`."""

import sys

from notifier.api.http_server import exit_now, listen
from notifier.domain.errors import UnusableEnvironment
from tests.support.in_memory_http_api import MemoryBackend


def main(host: str, port: str) -> None:
    try:
        listen(MemoryBackend().app(), host, int(port), lambda chosen: print(chosen, flush=True))
    except UnusableEnvironment as error:
        sys.exit(f"{error.code}: {error}")
    exit_now()


if __name__ == "__main__":
    main(*sys.argv[1:])
