"""`notifier audience`: who a mention of an account would be for, drawn by tier."""

from collections.abc import Mapping
from pathlib import Path

import click

from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import print_json, print_sentence, print_table
from notifier.cli.progress import progress
from notifier.cli.screen import watched
from notifier.cli.verbs import example
from notifier.config import Settings
from notifier.domain.errors import NotFound
from notifier.domain.subject import Kind, Lane, Subject, UserId
from notifier.flow.census import Counted
from notifier.system import Ports

WIDEST_BAR = 40


@click.command(epilog=example("notifier audience @nova"))
@click.argument("account")
@data_option
@json_option
def audience(account: str, data: Path | None, as_json: bool) -> None:
    """Count an account's followers by tier, and those whom a mute or a volume leaves out, as of now."""
    from notifier.cli.opening import opened

    settings = settings_for(data)
    with opened(settings) as folder:
        found = counted(folder.ports, settings, UserId(account.removeprefix("@")), quiet=as_json)
    if as_json:
        print_json(facts(found))
    else:
        _print(found)


def counted(ports: Ports, settings: Settings, user: UserId, *, quiet: bool) -> Counted:
    """Raises NotFound for an account that doesn't exist."""
    from notifier.flow.census import Census
    from notifier.flow.router import lane_of

    if user not in ports.directory.accounts([user]):
        raise NotFound(f"The account is {user}.")
    subject = Subject(Kind.MENTION, user)
    head = ports.sets.head(subject)
    lane = lane_of(head.total, settings.threshold, was=Lane.STANDARD)
    with progress("counting", sum(map(bool, head.counts)), quiet=quiet) as advance:
        return Census(sets=ports.sets)(subject, lane, advance)


def facts(found: Counted) -> Mapping[str, object]:
    return {
        "account": found.subject.owner,
        "lane": str(found.lane),
        "followers": found.followers,
        "followers_by_head": found.head,
        "shards": found.shards,
        "tiers": [{"tier": str(t), "people": n, "phones": found.phones[t]} for t, n in found.tiers.items()],
        "suppressed": dict(found.suppressed),
        "first_only": found.first,
    }


def _print(found: Counted) -> None:
    print_sentence(
        f"@{found.subject.owner} is in the {found.lane} lane, with {found.followers:,} followers"
        f" (shards of them: {found.shards:,})."
    )
    if found.head != found.followers:
        print_sentence(f"The head, by which bursts are planned, counts {found.head:,}.")
    if not found.followers:
        return
    click.echo()
    rows = [(str(tier), n, found.phones[tier]) for tier, n in found.tiers.items()]
    rows += [(rule, n, 0) for rule, n in found.suppressed.items()]
    print_table(
        ("", "people", "phones", "of all"), [(name, n, phones, _share(n, found.followers)) for name, n, phones in rows]
    )
    if found.first:
        click.echo()
        print_sentence(f"{found.first:,} in the tiers want the first burst of a day alone.")


def _share(n: int, of: int) -> str:
    bar = "█" * round(WIDEST_BAR * n / of) if watched() else ""
    return f"{100 * n / of:5.1f} % {bar}".rstrip()
