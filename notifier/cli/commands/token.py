"""Command `notifier token`: prints an access token of a user, for tests."""

from datetime import datetime, timedelta
from pathlib import Path

import click

from notifier.cli.command_groups_and_errors import example
from notifier.cli.options import AccountParam, DurationParam, data_option, json_option, settings_for
from notifier.cli.output import iso_time, print_json
from notifier.config import Settings
from notifier.domain.errors import NotFound
from notifier.domain.ids import UserId

MIN_LIFETIME = timedelta(seconds=1)
"""Minimum lifetime: tokens expire at whole seconds."""


@click.command(epilog=example("notifier token u7 --ttl 1h"))
@click.argument("user", type=AccountParam())
@click.option("--ttl", type=DurationParam(), default="15m", show_default=True, help="Lifetime of the token.")
@data_option
@json_option
def token(user: UserId, ttl: timedelta, data: Path | None, as_json: bool) -> None:
    """Print an access token for a user's inbox.

    The bearer of the token can act as that user until the token expires. If NOTIFIER_ISSUER_NAME is set, only that
    issuer makes tokens, and this command fails.
    """
    from notifier.cli.opened_stores import open_stores

    if ttl < MIN_LIFETIME:
        raise click.UsageError("--ttl must be at least 1s; a shorter token expires before it can be used.")
    settings = settings_for(data)
    with open_stores(settings) as stores:
        account = stores.ports.directory.accounts([user]).get(user)
        if account is None or account.deleted:
            raise NotFound(f"User {user} doesn't exist or is deleted.")
        now = stores.ports.clock.now()
        text = sign_user_token(settings, user, now, ttl)
    if as_json:
        print_json({"user": user, "token": text, "ends_at": iso_time(now + ttl)})
    else:
        click.echo(text)


def sign_user_token(settings: Settings, user: UserId, now: datetime, ttl: timedelta) -> str:
    """Return a token signed with the secret of the installation.

    Raises UsageError if the service accepts only tokens of an external issuer.
    """
    from notifier.api.auth.authenticators import installation_keys, issue_token

    if settings.issuer.name:
        raise click.UsageError(f"User tokens are issued by {settings.issuer.name}; the service rejects all others.")
    return issue_token(installation_keys(settings), user, now, ttl)
