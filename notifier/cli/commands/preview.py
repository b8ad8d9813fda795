"""Command `notifier preview`: estimates the effect of a mention by tier, without sending it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

import click

from notifier.api.schemas.preview import PreviewBody, previews
from notifier.cli.command_groups_and_errors import example
from notifier.cli.commands.audience import require_account
from notifier.cli.options import AccountParam, data_option, json_option, settings_for
from notifier.cli.output import print_fields, print_json, print_sentence, print_table, progress
from notifier.domain.bursts.events_and_mentions import Event, EventId
from notifier.domain.ids import UserId
from notifier.domain.upstream.validation import id_problem

ANY_AUTHOR = ""
"""Author without a moderation verdict and without followers."""
PREVIEW_TWEET = "preview"
"""Id of a tweet that is unknown to the store."""


@click.command(epilog=example("notifier preview @nova", "notifier preview @nova --author ada --tweet t1 --json"))
@click.argument("account", type=AccountParam())
@click.option(
    "--author", type=AccountParam(), default=ANY_AUTHOR, help="Author of the mention.  [default: an unknown account]"
)
@click.option("--tweet", default=None, help="Id of the author's tweet.  [default: a new one]")
@click.option("--protected", is_flag=True, help="Show the tweet to the author's followers only.")
@data_option
@json_option
def preview(
    account: UserId, author: UserId, tweet: str | None, *, protected: bool, data: Path | None, as_json: bool
) -> None:
    """Estimate what a mention of an account would do now, without sending it.

    Shows the users, alerts, rows, bytes and seconds of each tier, and how many users each rule excludes. Nothing is
    written, and no user is notified.
    """
    from notifier.cli.opened_stores import open_stores
    from notifier.metrics import Metrics
    from notifier.wiring.operations import build_preview
    from notifier.wiring.shared_parts import build_system

    settings = settings_for(data)
    if protected and not author:
        raise click.UsageError("--protected needs --author: only that author's followers see the tweet.")
    if tweet is not None and not author:
        raise click.UsageError("--tweet needs --author, the author of the tweet.")
    if tweet is not None and (problem := id_problem(tweet)):
        raise click.UsageError(f"Invalid tweet id: it {problem}.")
    with open_stores(settings) as stores, _progress_bars(quiet=as_json) as start_bar:
        require_account(stores.ports, account)
        system = build_system(ports=stores.ports, settings=settings, metrics=Metrics(), owner="preview")
        event = _preview_event(
            account, author, tweet or PREVIEW_TWEET, protected=protected, now=stores.ports.clock.now()
        )
        [estimate] = previews(build_preview(system).estimate(event, start_bar)).accounts
    if as_json:
        from msgspec import to_builtins

        print_json(to_builtins(estimate))
    else:
        _print_estimate(estimate)


@contextmanager
def _progress_bars(*, quiet: bool) -> Iterator[Callable[[int], Callable[[int], None]]]:
    with ExitStack() as bars:
        yield lambda shards: bars.enter_context(progress("counting", shards, quiet=quiet))


def _preview_event(user: UserId, author: UserId, tweet: str, *, protected: bool, now: datetime) -> Event:
    return Event(
        id=EventId("notifier-cli", "preview"),
        tweet=tweet,
        author=author,
        mentioned=(user,),
        text=f"hello @{user}",
        protected=protected,
        happened_at=now,
        accepted_at=now,
    )


def _print_estimate(estimate: PreviewBody) -> None:
    if estimate.burst is None:
        print_sentence(
            f"A mention of @{estimate.account} would reach no user except perhaps @{estimate.account}:"
            f" {estimate.refusal}."
        )
        return
    verb = "join" if estimate.count > 1 else "open"
    print_sentence(
        f"A mention of @{estimate.account} would {verb} {estimate.burst}, in the {estimate.lane} lane, with the verdict"
        f" {estimate.verdict} ({estimate.followers:,} followers)."
    )
    if estimate.note:
        print_sentence(estimate.note)
    if not estimate.tiers:
        return
    click.echo()
    headings = ("", "users", "alerts", "rows", "bytes", "seconds", "held by")
    rows = [
        (
            tier,
            tier_estimate.people,
            tier_estimate.alerted,
            tier_estimate.rows,
            tier_estimate.bytes,
            tier_estimate.eta_seconds,
            tier_estimate.held_by,
        )
        for tier, tier_estimate in estimate.tiers.items()
    ]
    print_table(headings, rows)
    click.echo()
    excluded = {f"excluded: {rule}": people for rule, people in estimate.suppressed.items()}
    dormant = {"dormant": estimate.dormant, "dormant with an alert": estimate.dormant_alerted}
    print_fields(dormant | excluded | {"first of its day": "yes" if estimate.first_of_day else "no"})
