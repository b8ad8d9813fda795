"""Command `notifier audience`: counts an account's followers by tier, and verifies its bitmaps."""

import random
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path

import click

from notifier.cli.group import Family, example
from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import print_facts, print_json, print_sentence, print_table, progress, watched
from notifier.config import Settings
from notifier.domain.audience.activity import Published
from notifier.domain.errors import NotFound
from notifier.domain.ids import Kind, Subject, UserId
from notifier.flow.indexing.audience_verification import Compared
from notifier.flow.operations.audience_count import Counted
from notifier.flow.operations.overview import COUNTED, Fresh, freshness
from notifier.ports.all_ports import Ports

WIDEST_BAR = 40


class AudienceCommands(Family):
    """Commands of `notifier audience`. An argument that is no command is an account to show."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = next((arg for arg in args if not arg.startswith("-")), None)
        shown = first is not None and first not in self.commands
        return super().parse_args(ctx, ["show", *args] if shown else args)


@click.group(cls=AudienceCommands, epilog=example("notifier audience @nova", "notifier audience verify @nova --repair"))
def audience() -> None:
    """Show and verify the audience of a mention of an account."""


@audience.command(epilog=example("notifier audience @nova", "notifier audience show @nova --json"))
@click.argument("account")
@data_option
@json_option
def show(account: str, data: Path | None, as_json: bool) -> None:
    """Count the followers of an account by tier, and those that are left out.

    A mute or a volume leaves followers out. Also shows how current the counts are.
    """
    from notifier.cli.context import opened

    settings = settings_for(data)
    with opened(settings) as folder:
        ports = folder.ports
        audience_counts = counted(ports, settings, UserId(account.removeprefix("@")), quiet=as_json)
        fresh = freshness(ports.log, ports.active_hours, ports.clock, settings.roll_up_every)
    if as_json:
        print_json({**facts(audience_counts), "fresh": ages(fresh)})
    else:
        _print(audience_counts)
        _print_ages(fresh)


@audience.command(epilog=example("notifier audience verify @nova", "notifier audience verify @nova --sample 10000"))
@click.argument("account")
@click.option("--sample", type=click.IntRange(1), default=None, help="Followers to compare, at random.  [default: all]")
@click.option("--repair", is_flag=True, help="Have what is wrong made again, by whoever runs.")
@data_option
@json_option
@click.pass_context
def verify(
    ctx: click.Context, *, account: str, sample: int | None, repair: bool, data: Path | None, as_json: bool
) -> None:
    """Compare the bitmaps and counts of an account with the stored rows.

    The rows are those of follows and preferences. For shards beyond a sample, checks only that the bitmaps are readable
    and that the counts in the head are right.

    Exit code 1 if they differ.
    """
    from notifier.cli.context import opened
    from notifier.flow.indexing.audience_verification import Verification

    user = UserId(account.removeprefix("@"))
    with opened(settings_for(data)) as folder:
        ports = folder.ports
        verification = Verification(
            directory=ports.directory,
            follows=ports.follows,
            wants=ports.wants,
            overalls=ports.overalls,
            sets=ports.sets,
            log=ports.log,
        )
        require(ports, user)
        shards = verification.shards(user)
        order = shards if sample is None else random.sample(shards, len(shards))
        with progress("comparing", len(shards), quiet=as_json) as advance:
            compared = verification.verify(user, order, sample or inf, advance)
            checked = verification.look(user, order[len(compared) :], advance)
        requested = verification.repair(user, [*compared, *checked]) if repair else 0
    report = drift(user, compared, checked, requested)
    if as_json:
        print_json(report)
    else:
        _print_drift(report)
    if report["wrong_shards"]:
        ctx.exit(1)


def drift(user: UserId, found: Sequence[Compared], rest: Sequence[Compared], asked: int) -> Mapping[str, object]:
    all_shards = [*found, *rest]
    return {
        "account": user,
        "shards": len(found),
        "followers": sum(shard.followers for shard in found),
        "shards_looked_at": len(rest),
        "wrong_shards": [shard.shard for shard in all_shards if shard.wrong],
        "missing": sum(shard.missing for shard in all_shards),
        "strangers": sum(shard.strangers for shard in all_shards),
        "unreadable": sum(shard.unreadable for shard in all_shards),
        "wrong_in_head": sum(shard.head != shard.followers for shard in all_shards),
        "repairing": asked,
    }


def _print_drift(told: Mapping[str, object]) -> None:
    print_sentence(f"@{told['account']}: {told['followers']:,} followers in {told['shards']:,} shards were compared.")
    if checked := told["shards_looked_at"]:
        print_sentence(f"Of {checked:,} more shards the bitmaps were looked at.")
    if not (wrong := told["wrong_shards"]):
        print_sentence("Bitmaps, head and rows agree.")
        return
    assert isinstance(wrong, list)
    names = {"missing": "missing in bitmaps", "strangers": "strangers in bitmaps", "unreadable": "unreadable bitmaps"}
    names |= {"wrong_in_head": "wrong counts in the head"}
    print_facts({"wrong shards": len(wrong)} | {label: told[name] for name, label in names.items() if told[name]})
    if told["repairing"]:
        print_sentence("They are made again by whoever runs `notifier up` or a pump; verify again in a moment.")
    else:
        print_sentence("With --repair they are made again from the rows.")


def require(ports: Ports, user: UserId) -> None:
    """Raise NotFound if the account doesn't exist."""
    if user not in ports.directory.accounts([user]):
        raise NotFound(f"The account is {user}.")


def counted(ports: Ports, settings: Settings, user: UserId, *, quiet: bool) -> Counted:
    """Count the audience of an account by tier. Raises NotFound if the account doesn't exist."""
    from notifier.flow.indexing.tier_rule import tier_rule
    from notifier.flow.intake.router import lane_by
    from notifier.flow.operations.audience_count import Census

    require(ports, user)
    subject = Subject(Kind.MENTION, user)
    head = ports.sets.head(subject)
    lane = lane_by(ports.heads, subject, head.total, settings.threshold)
    with progress("counting", sum(map(bool, head.counts)), quiet=quiet) as advance:
        return Census(sets=ports.sets, rule=tier_rule(settings.tier_rule)).count(subject, lane, advance)


def facts(found: Counted) -> Mapping[str, object]:
    return {
        "account": found.subject.owner,
        "lane": str(found.lane),
        "followers": found.followers,
        "followers_by_head": found.head,
        "shards": found.shards,
        "tiers": [
            {"tier": str(tier), "people": people, "phones": found.phones[tier]} for tier, people in found.tiers.items()
        ],
        "suppressed": dict(found.suppressed),
        "first_only": found.first,
    }


def ages(fresh: Fresh) -> Mapping[str, object]:
    at = fresh.rolled_up_at
    return {"activity": str(fresh.activity), "rolled_up_at": at and at.isoformat(), "waiting": dict(fresh.waiting)}


def _print_ages(fresh: Fresh) -> None:
    click.echo()
    at = "no roll-up is known of" if fresh.rolled_up_at is None else f"rolled up at {fresh.rolled_up_at:%F %T} UTC"
    match fresh.activity:
        case Published.HELD:
            print_sentence("Tiers stay as they were loaded.")
        case Published.CURRENT:
            print_sentence(f"Who is active is current: {at}.")
        case Published.SNAPSHOT:
            print_sentence(f"Tiers are made of the last snapshot of who is active: {at}.")
    if waiting := {stream: n for stream, n in fresh.waiting.items() if n}:
        backlog = ", ".join(f"{n:,}{' or more' if n == COUNTED else ''} of {stream}" for stream, n in waiting.items())
        print_sentence(f"Accepted and not counted yet: {backlog}.")
    else:
        print_sentence("Everything that was said of follows, accounts and activity is in it.")


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
    rows = [(str(tier), people, found.phones[tier]) for tier, people in found.tiers.items()]
    rows += [(rule, people, 0) for rule, people in found.suppressed.items()]
    print_table(
        ("", "people", "phones", "of all"),
        [(name, people, phones, _share(people, found.followers)) for name, people, phones in rows],
    )
    if found.first:
        click.echo()
        print_sentence(f"{found.first:,} in the tiers want the first burst of a day alone.")


def _share(n: int, of: int) -> str:
    bar = "█" * round(WIDEST_BAR * n / of) if watched() else ""
    return f"{100 * n / of:5.1f} % {bar}".rstrip()
