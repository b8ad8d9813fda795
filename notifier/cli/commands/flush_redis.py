"""Command `notifier flush`: empties the Redis that `notifier up` started."""

from pathlib import Path

import click

from notifier.cli.command_groups_and_errors import example
from notifier.cli.options import data_option, settings_for
from notifier.domain.errors import CacheUnavailable


@click.command(epilog=example("notifier flush", "notifier flush --data notifier-demo"))
@data_option
def flush(*, data: Path | None) -> None:
    """Empty the Redis that `notifier up` started. No notification is lost.

    Counts of limits such as frequency caps, and the last minute of activity, are lost. Inboxes read the store until
    the pull index is rebuilt, and lost tasks are queued again. An external Redis (NOTIFIER_REDIS_URL) is left
    unchanged.
    """
    from notifier.cli.opened_stores import require_folder
    from notifier.profiles import choose

    settings = settings_for(data)
    require_folder(settings.data)
    profile = choose(settings)
    try:
        if not profile.flush_redis():
            raise CacheUnavailable("No Redis started by `notifier up` is running.")
    finally:
        profile.close()
    click.echo(
        "Redis was emptied. Inboxes read the store until the pull index is rebuilt, and lost tasks are queued again."
    )
