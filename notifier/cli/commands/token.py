"""Command `notifier token`: prints an access token of a user, for tests."""

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
"""Shortest lifetime: tokens expire at whole seconds."""


@click.command(epilog=example("notifier token u7 --ttl 1h"))
@click.argument("user")
@click.option("--ttl", type=DurationParam(), default="15m", show_default=True, help="How long it is good.")
@data_option
@json_option
def token(user: str, ttl: timedelta, data: Path | None, as_json: bool) -> None:
    """Print an access token for a user's inbox.

    Its bearer can act as that user until it expires.
    """
    from notifier.cli.context import opened

    if ttl < SHORTEST:
        raise click.UsageError("--ttl is less than a second; the token would have ended before anybody used it.")
    settings = settings_for(data)
    with opened(settings) as folder:
        account = folder.ports.directory.accounts([UserId(user)]).get(UserId(user))
        if account is None or account.deleted:
            raise NotFound(f"The user is {user}.")
        now = folder.ports.clock.now()
        text = own_token(settings, UserId(user), now, ttl)
    if as_json:
        print_json({"user": user, "token": text, "ends_at": stamp(now + ttl)})
    else:
        click.echo(text)


def own_token(settings: Settings, user: UserId, now: datetime, ttl: timedelta) -> str:
    """Return a token signed with the secret of the folder.

    Raises UsageError if the service accepts only tokens of an external issuer.
    """
    from notifier.api.auth.identity import issue_token, keys_of

    if settings.issuer.name:
        raise click.UsageError(f"People's tokens come from {settings.issuer.name}; one of ours would open nothing.")
    return issue_token(keys_of(settings), user, now, ttl)
