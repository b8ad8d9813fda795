"""Complaints: what the loops of a run log as errors."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class Complaints(logging.Handler):
    """What the loops log as an error: a bug, because outages are warnings."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else ""
        self.found.append(f"{record.getMessage()} {cause!r}")

    @contextmanager
    def listening(self) -> Iterator[None]:
        loggers = [logging.getLogger(name) for name in ("notifier.consumer_loop", "workers.runner")]
        before = [(logger, logger.propagate, logger.level) for logger in loggers]
        for logger in loggers:
            logger.addHandler(self)
            logger.propagate = False
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, propagate, level in before:
                logger.removeHandler(self)
                logger.propagate = propagate
                logger.setLevel(level)
