"""Simulates a full disk for this process alone."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def limited_file_size(size: int) -> Iterator[None]:
    """Fail writes that extend a file beyond `size`, as a full disk does."""
    previous = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, previous[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, previous)
