"""The topics as the code wants them, and the way there."""

from collections.abc import Sequence

from notifier.adapters.kafka.access import Access


def pending(access: Access) -> Sequence[str]:
    raise NotImplementedError


def migrate(access: Access) -> int:
    raise NotImplementedError
