"""A look at a broker that is no Redis: whether it lets us in; it makes no queue."""

from kombu.exceptions import KombuError

from notifier.adapters.celery.app import ANSWER_WITHIN, application
from notifier.domain.delivery.slice import Pool
from notifier.domain.errors import QueueUnavailable


def knock(broker: str, pool: Pool) -> None:
    """Raises QueueUnavailable."""
    connection = application(broker, pool, answer_within=ANSWER_WITHIN).connection_for_read()
    try:
        connection.connect()
    except (*connection.connection_errors, KombuError, OSError) as error:
        raise QueueUnavailable(f"{type(error).__name__}: {error}") from error
    finally:
        connection.release()
