"""`notifier flush`: empties the Redis of a running service, to see that nothing is lost by it."""

from pathlib import Path

import click

from notifier.cli.group import example
from notifier.cli.options import data_option, settings_for
from notifier.domain.errors import CacheUnavailable


@click.command(epilog=example("notifier flush", "notifier flush --data notifier-demo"))
@data_option
def flush(*, data: Path | None) -> None:
    """Empty the Redis that the service started itself. Nothing is lost: tabs read the store until the index is rebuilt.

    A Redis that somebody else runs (NOTIFIER_REDIS_URL) is left alone.
    """
    from notifier.cli.context import require_folder
    from notifier.profiles import choose

    settings = settings_for(data)
    require_folder(settings.data)
    profile = choose(settings)
    try:
        if not profile.empty():
            raise CacheUnavailable("There is no Redis of our own that could be emptied.")
    finally:
        profile.close()
    click.echo("Redis was emptied. Tabs read the store until the index is rebuilt, and lost tasks are queued again.")
