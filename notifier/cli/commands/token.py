"""`notifier token`: a person's way in, for tests, trials and the impatient."""

from datetime import datetime, timedelta
from pathlib import Path

import click

from notifier.cli.group import example
from notifier.cli.options import DurationParam, data_option, json_option, settings_for
from notifier.cli.output import print_json, stamp
from notifier.config import Settings
from notifier.domain.errors import NotFound
from notifier.domain.ids import UserId

SHORTEST = timedelta(seconds=1)
"""A token counts in seconds."""


@click.command(epilog=example("notifier token u7 --ttl 1h"))
@click.argument("user")
@click.option("--ttl", type=DurationParam(), default="15m", show_default=True, help="How long it is good.")
@data_option
@json_option
def token(user: str, ttl: timedelta, data: Path | None, as_json: bool) -> None:
    """Print a token that opens a person's tab. Whoever has it is that person until it ends."""
    from notifier.cli.context import opened

    if ttl < SHORTEST:
        raise click.UsageError("--ttl is less than a second; the token would have ended before anybody used it.")
    settings = settings_for(data)
    with opened(settings) as folder:
        known = folder.ports.directory.accounts([UserId(user)]).get(UserId(user))
        if known is None or known.deleted:
            raise NotFound(f"The user is {user}.")
        now = folder.ports.clock.now()
        made = token_of_ours(settings, UserId(user), now, ttl)
    if as_json:
        print_json({"user": user, "token": made, "ends_at": stamp(now + ttl)})
    else:
        click.echo(made)


def token_of_ours(settings: Settings, user: UserId, now: datetime, ttl: timedelta) -> str:
    """Signed with the folder's secret. Raises UsageError where the service takes tokens of an issuer alone."""
    from notifier.api.auth.identity import issue, keys_of

    if settings.issuer.name:
        raise click.UsageError(f"People's tokens come from {settings.issuer.name}; one of ours would open nothing.")
    return issue(keys_of(settings), user, now, ttl)
