"""Command `notifier reach`: sets moderation verdicts of accounts, and decides on held mentions."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import nsmallest
from itertools import islice
from pathlib import Path

import click

from notifier.cli.command_groups_and_errors import CommandGroup, example
from notifier.cli.commands.throttle import MIN_PREFIX_LENGTH, operator_option
from notifier.cli.options import AccountParam, data_option, json_option, settings_for
from notifier.cli.output import SHOWN_ID_LENGTH, iso_time, print_fields, print_json, print_sentence, print_table
from notifier.domain.bursts.held_mention import MAX_DECISION_WAIT, HeldMention, ModerationDecision
from notifier.domain.bursts.moderation import AuthorVerdict, Verdict, validated_verdict
from notifier.domain.errors import NotFound
from notifier.domain.ids import UserId
from notifier.domain.upstream.validation import id_problem
from notifier.ports.all_ports import Ports

# Commands `notifier reach held`, `release` and `drop`: held mentions that await a decision.

MENTIONS_PER_BATCH = 500
SHOWN_TEXT_LENGTH = 60
"""Characters of a text in the table. JSON has the whole stored text."""

DecideBatch = Callable[[Sequence[HeldMention]], Sequence[HeldMention]]
"""Decides held mentions. Returns those that this call has decided."""

of_option = click.option("--of", "mentioned", type=AccountParam(), default=None, help="Only mentions of this account.")
by_option = click.option("--by", "author", type=AccountParam(), default=None, help="Only mentions by this account.")
all_by_option = click.option(
    "--by", "author", type=AccountParam(), default=None, help="Instead of ids: all held mentions by this account."
)


@click.command(epilog=example("notifier reach held", "notifier reach held --of @nova --by @bob --json"))
@of_option
@by_option
@click.option(
    "--limit", type=click.IntRange(1), default=100, show_default=True, help="Maximum number of mentions to list."
)
@data_option
@json_option
def held(*, mentioned: UserId | None, author: UserId | None, limit: int, data: Path | None, as_json: bool) -> None:
    """List the held mentions, oldest first. A mention is held for at most 30 days."""
    from notifier.cli.opened_stores import open_stores

    settings = settings_for(data)
    with open_stores(settings) as stores:
        matching = held_mentions_of(stores.ports, mentioned=mentioned, author=author)
        oldest = nsmallest(limit, matching, key=lambda mention: (mention.since, mention.id))
        mentions = _without_retracted_text(stores.ports, oldest)
    if as_json:
        print_json([held_json(mention) for mention in mentions])
    elif not mentions:
        print_sentence("No mention is held.")
    else:
        rows = [
            (
                mention.key[:SHOWN_ID_LENGTH],
                mention.since,
                f"@{mention.author}",
                _account_list(mention),
                _tweet_text(mention)[:SHOWN_TEXT_LENGTH],
            )
            for mention in mentions
        ]
        print_table(("id", "since", "by", "of", "text"), rows)


@click.command(epilog=example("notifier reach release 2789d953", "notifier reach release --by @bob"))
@click.argument("ids", nargs=-1)
@all_by_option
@operator_option
@data_option
@json_option
def release(*, ids: Sequence[str], author: UserId | None, operator: str, data: Path | None, as_json: bool) -> None:
    """Release held mentions. They are delivered now.

    If the author's cap is used up, a celebrity's followers get no alert; the mentioned account still gets one.

    IDS are ids that `notifier reach held` shows, or at least their first six characters if they are unambiguous. Other
    held mentions by the author remain held. If the author's verdict is `row` or `deny` by now, it applies.
    """
    from notifier.cli.opened_stores import open_stores
    from notifier.flow.intake.held_mention_release import HeldMentionRelease

    settings = settings_for(data)
    with open_stores(settings) as stores:
        release_mentions = HeldMentionRelease.of(stores.ports)
        decided = _decide_selected(stores.ports, ids, author, lambda batch: release_mentions(batch, operator))
        decided = _without_retracted_text(stores.ports, decided) if as_json else decided
    _print_held(decided, "released", as_json=as_json)


@click.command(epilog=example("notifier reach drop 2789d953", "notifier reach drop --by @bob"))
@click.argument("ids", nargs=-1)
@all_by_option
@operator_option
@data_option
@json_option
def drop(*, ids: Sequence[str], author: UserId | None, operator: str, data: Path | None, as_json: bool) -> None:
    """Discard held mentions. No user is notified of them.

    The status of their events says that they were denied. IDS are as in `notifier reach release`.
    """
    from notifier.cli.opened_stores import open_stores

    settings = settings_for(data)
    with open_stores(settings) as stores:
        ports = stores.ports
        now = ports.clock.now()

        def drop_mentions(batch: Sequence[HeldMention]) -> Sequence[HeldMention]:
            dropped = ModerationDecision.DROPPED
            return [mention for mention in batch if ports.held_mentions.decide(mention.id, dropped, operator, now)]

        decided = _decide_selected(ports, ids, author, drop_mentions)
        decided = _without_retracted_text(ports, decided) if as_json else decided
    _print_held(decided, "dropped", as_json=as_json)


def _without_retracted_text(ports: Ports, held_mentions: Sequence[HeldMention]) -> Sequence[HeldMention]:
    """Return the held mentions, without the text of retracted ones."""
    from notifier.flow.intake.held_mention_release import with_current_text

    return with_current_text(ports.retractions, held_mentions)


def held_mentions_of(
    ports: Ports, *, mentioned: UserId | None = None, author: UserId | None = None
) -> Iterator[HeldMention]:
    """Yield the held mentions of an account by an author. None stands for any account or author."""
    return (
        mention
        for mention in ports.held_mentions.waiting()
        if author in (None, mention.author) and (mentioned is None or mentioned in mention.accounts)
    )


def selected_held_mentions(ids: Sequence[str], held_mentions: Iterable[HeldMention]) -> Sequence[HeldMention]:
    """Return the held mentions that the ids or their prefixes select, each once.

    Raises UsageError for an ambiguous or short prefix, and NotFound for an unknown one.
    """
    if short_id := next((id for id in ids if len(id) < MIN_PREFIX_LENGTH), None):
        raise click.UsageError(
            f"{short_id!r} is too short: give at least the first {MIN_PREFIX_LENGTH} characters of the id."
        )
    candidates = [mention for mention in held_mentions if mention.key.startswith(tuple(ids))]
    selected = dict[str, HeldMention]()
    for id in ids:
        matches = [mention for mention in candidates if mention.key.startswith(id)]
        if not matches:
            raise NotFound(f"No mention {id} is held.")
        if len(matches) > 1:
            raise click.UsageError(f"The ids of {len(matches)} mentions begin with {id}; give more characters.")
        selected[matches[0].key] = matches[0]
    return list(selected.values())


def _decide_selected(
    ports: Ports, ids: Sequence[str], author: UserId | None, decide: DecideBatch
) -> Sequence[HeldMention]:
    """Decide the mentions with these ids or by this author in batches. Return those that this call has decided.

    Raises NotFound if it decided none, for example because another operator has just decided them.
    """
    if bool(ids) == (author is not None):
        raise click.UsageError("Give either ids from `notifier reach held`, or --by and an account.")
    selected = iter(
        selected_held_mentions(ids, ports.held_mentions.waiting()) if ids else held_mentions_of(ports, author=author)
    )
    decided = list[HeldMention]()
    while batch := list(islice(selected, MENTIONS_PER_BATCH)):
        decided += decide(batch)
    if not decided:
        raise NotFound(f"No mention {'by @' + author if author else ', '.join(ids)} is held.")
    return decided


def held_json(mention: HeldMention) -> dict[str, object]:
    return {
        "id": mention.key,
        "source": mention.id.source,
        "event": mention.id.id,
        "by": mention.author,
        "of": list(mention.accounts),
        "since": iso_time(mention.since),
        "until": iso_time(mention.since + MAX_DECISION_WAIT),
        "text": _tweet_text(mention),
    }


def _print_held(decided: Sequence[HeldMention], outcome: str, *, as_json: bool) -> None:
    if as_json:
        print_json([held_json(mention) for mention in decided])
        return
    number = "1 mention is" if len(decided) == 1 else f"{len(decided):,} mentions are"
    print_sentence(f"{number} {outcome}.")


def _account_list(mention: HeldMention) -> str:
    first = " ".join(f"@{name}" for name in mention.accounts[:3])
    return first if len(mention.accounts) <= 3 else f"{first} and {len(mention.accounts) - 3} others"


def _tweet_text(mention: HeldMention) -> str:
    return mention.event.text if mention.event else ""


@click.group(
    cls=CommandGroup, epilog=example('notifier reach set @bob --verdict hold --reason "a flood"', "notifier reach held")
)
def reach() -> None:
    """Limit the delivery of an author's mentions by a verdict, and decide on held mentions.

    \b
    all   inbox rows, and push alerts up to the author's cap
    row   inbox rows, no push alerts
    hold  nothing until an operator releases it; held for at most 30 days
    deny  nothing
    """


@reach.command("set", epilog=example('notifier reach set @bob --verdict hold --reason "a flood of links"'))
@click.argument("account", type=AccountParam())
@click.option(
    "--verdict",
    type=click.Choice([str(choice) for choice in Verdict]),
    required=True,
    help="Verdict, as in `notifier reach --help`.",
)
@click.option("--reason", required=True, help="Reason, shown to other operators.")
@click.option("--unknown-account", is_flag=True, help="Accept an account that the directory doesn't know.")
@operator_option
@data_option
@json_option
def set_reach(
    *,
    account: UserId,
    verdict: str,
    reason: str,
    unknown_account: bool,
    operator: str,
    data: Path | None,
    as_json: bool,
) -> None:
    """Set the verdict on an account's mentions, from its next mention on.

    The verdict applies until it is changed. If two operators set verdicts at the same time, one verdict wins. The other
    operator sees the winning verdict, and exit code 1.
    """
    from notifier.cli.opened_stores import open_stores

    require_valid_name(account)
    with open_stores(settings_for(data)) as stores:
        ports = stores.ports
        previous = ports.author_verdicts.read_current([account]).get(account)
        if previous is None and not unknown_account:
            require_known_account(ports, account)
        now = ports.clock.now()
        record = validated_verdict(
            AuthorVerdict(user=account, verdict=Verdict(verdict), reason=reason, operator=operator, at=now), previous
        )
        ports.author_verdicts.put(record)
        # The store resolves concurrent changes. The audit log contains both.
        current = ports.author_verdicts.read_current([account])[account]
    _print_verdict(current, as_json=as_json)
    if current != record:
        click.echo(f"Not applied: {current.operator} has set this verdict for @{account} at the same time.", err=True)
        click.get_current_context().exit(1)


@reach.command("list", epilog=example("notifier reach list", "notifier reach list --json"))
@data_option
@json_option
def list_verdicts(data: Path | None, as_json: bool) -> None:
    """List the accounts with a limited reach, each with the operator, reason and time of the verdict."""
    from notifier.cli.opened_stores import open_stores

    with open_stores(settings_for(data)) as stores:
        limited = [record for record in stores.ports.author_verdicts.read_all() if record.verdict is not Verdict.ALL]
    if as_json:
        print_json([verdict_json(record) for record in limited])
    elif not limited:
        print_sentence("No account has a limited reach.")
    else:
        rows = [(f"@{record.user}", record.verdict, record.at, record.operator, record.reason) for record in limited]
        print_table(("account", "verdict", "since", "operator", "reason"), rows)


@reach.command(epilog=example("notifier reach show @bob"))
@click.argument("account", type=AccountParam())
@data_option
@json_option
def show(account: UserId, data: Path | None, as_json: bool) -> None:
    """Show the verdict on an account's mentions, and who set it."""
    from notifier.cli.opened_stores import open_stores

    require_valid_name(account)
    with open_stores(settings_for(data)) as stores:
        record = stores.ports.author_verdicts.read_current([account]).get(account)
        if record is None:
            require_known_account(stores.ports, account)
    if record is not None:
        _print_verdict(record, as_json=as_json)
    elif as_json:
        print_json({"account": account, "verdict": str(Verdict.ALL), "reason": None, "operator": None, "at": None})
    else:
        print_sentence(f"@{account} has no verdict: its reach is not limited.")


def require_valid_name(account: UserId) -> None:
    if problem := id_problem(account):
        raise click.UsageError(f"Invalid account name: it {problem}.")


def require_known_account(ports: Ports, account: UserId) -> None:
    if account not in ports.directory.accounts([account]):
        raise NotFound(f"Account {account} is unknown; `notifier reach set` accepts it with --unknown-account.")


def verdict_json(author_verdict: AuthorVerdict) -> dict[str, object]:
    return {
        "account": author_verdict.user,
        "verdict": str(author_verdict.verdict),
        "reason": author_verdict.reason,
        "operator": author_verdict.operator,
        "at": iso_time(author_verdict.at),
    }


def _print_verdict(author_verdict: AuthorVerdict, *, as_json: bool) -> None:
    if as_json:
        print_json(verdict_json(author_verdict))
    else:
        print_fields(verdict_json(author_verdict) | {"account": f"@{author_verdict.user}"})


for subcommand in (held, release, drop):
    reach.add_command(subcommand)
