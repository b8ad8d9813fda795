"""`notifier audience`: who a mention of an account would be for, drawn by tier; and whether that is still right."""

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
    """What is no command is an account to be shown."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = next((arg for arg in args if not arg.startswith("-")), None)
        shown = first is not None and first not in self.commands
        return super().parse_args(ctx, ["show", *args] if shown else args)


@click.group(cls=AudienceCommands, epilog=example("notifier audience @nova", "notifier audience verify @nova --repair"))
def audience() -> None:
    """Show who a mention of an account would be for, and verify it."""


@audience.command(epilog=example("notifier audience @nova", "notifier audience show @nova --json"))
@click.argument("account")
@data_option
@json_option
def show(account: str, data: Path | None, as_json: bool) -> None:
    """Count an account's followers by tier, and those whom a mute or a volume leaves out, and say how fresh that is."""
    from notifier.cli.context import opened

    settings = settings_for(data)
    with opened(settings) as folder:
        p = folder.ports
        found = counted(p, settings, UserId(account.removeprefix("@")), quiet=as_json)
        fresh = freshness(p.log, p.active_hours, p.clock, settings.roll_up_every)
    if as_json:
        print_json({**facts(found), "fresh": ages(fresh)})
    else:
        _print(found)
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
    """Compare an account's bitmaps and head with the rows of follows and wants. Exit code 1 when they differ.

    Of the shards beyond a sample it is looked whether bitmaps can be read and the head counts them right.
    """
    from notifier.cli.context import opened
    from notifier.flow.indexing.audience_verification import Verification

    user = UserId(account.removeprefix("@"))
    with opened(settings_for(data)) as folder:
        p = folder.ports
        verification = Verification(
            directory=p.directory, follows=p.follows, wants=p.wants, overalls=p.overalls, sets=p.sets, log=p.log
        )
        require(p, user)
        shards = verification.shards(user)
        some = shards if sample is None else random.sample(shards, len(shards))
        with progress("comparing", len(shards), quiet=as_json) as advance:
            found = verification.verify(user, some, sample or inf, advance)
            rest = verification.look(user, some[len(found) :], advance)
        asked = verification.repair(user, [*found, *rest]) if repair else 0
    told = drift(user, found, rest, asked)
    if as_json:
        print_json(told)
    else:
        _print_drift(told)
    if told["wrong_shards"]:
        ctx.exit(1)


def drift(user: UserId, found: Sequence[Compared], rest: Sequence[Compared], asked: int) -> Mapping[str, object]:
    both = [*found, *rest]
    return {
        "account": user,
        "shards": len(found),
        "followers": sum(one.followers for one in found),
        "shards_looked_at": len(rest),
        "wrong_shards": [one.shard for one in both if one.wrong],
        "missing": sum(one.missing for one in both),
        "strangers": sum(one.strangers for one in both),
        "unreadable": sum(one.unreadable for one in both),
        "wrong_in_head": sum(one.head != one.followers for one in both),
        "repairing": asked,
    }


def _print_drift(told: Mapping[str, object]) -> None:
    print_sentence(f"@{told['account']}: {told['followers']:,} followers in {told['shards']:,} shards were compared.")
    if rest := told["shards_looked_at"]:
        print_sentence(f"Of {rest:,} more shards the bitmaps were looked at.")
    if not (wrong := told["wrong_shards"]):
        print_sentence("Bitmaps, head and rows agree.")
        return
    assert isinstance(wrong, list)
    names = {"missing": "missing in bitmaps", "strangers": "strangers in bitmaps", "unreadable": "unreadable bitmaps"}
    names |= {"wrong_in_head": "wrong counts in the head"}
    print_facts({"wrong shards": len(wrong)} | {words: told[name] for name, words in names.items() if told[name]})
    if told["repairing"]:
        print_sentence("They are made again by whoever runs `notifier up` or a pump; verify again in a moment.")
    else:
        print_sentence("With --repair they are made again from the rows.")


def require(ports: Ports, user: UserId) -> None:
    """Raises NotFound for an account that doesn't exist."""
    if user not in ports.directory.accounts([user]):
        raise NotFound(f"The account is {user}.")


def counted(ports: Ports, settings: Settings, user: UserId, *, quiet: bool) -> Counted:
    """Raises NotFound for an account that doesn't exist."""
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
        "tiers": [{"tier": str(t), "people": n, "phones": found.phones[t]} for t, n in found.tiers.items()],
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
    if late := {stream: n for stream, n in fresh.waiting.items() if n}:
        told = ", ".join(f"{n:,}{' or more' if n == COUNTED else ''} of {stream}" for stream, n in late.items())
        print_sentence(f"Accepted and not counted yet: {told}.")
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
