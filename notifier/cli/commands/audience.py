"""Command `notifier audience`: counts an account's followers by tier, and verifies its bitmaps."""

import random
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path

import click

from notifier.cli.command_groups_and_errors import CommandGroup, example
from notifier.cli.options import AccountParam, data_option, json_option, settings_for
from notifier.cli.output import is_terminal, print_fields, print_json, print_sentence, print_table, progress
from notifier.config import Settings
from notifier.domain.audience.activity import ActiveSetFreshness
from notifier.domain.errors import NotFound
from notifier.domain.ids import Kind, Subject, UserId
from notifier.flow.indexing.audience_verification import ShardComparison
from notifier.flow.operations.audience_count import AudienceCounts
from notifier.flow.operations.overview import MAX_COUNTED_RECORDS, AudienceFreshness, audience_freshness
from notifier.ports.all_ports import Ports

MAX_BAR_WIDTH = 40


class AudienceCommands(CommandGroup):
    """Commands of `notifier audience`. A first argument that is not a command is an account to show."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = next((arg for arg in args if not arg.startswith("-")), None)
        is_account = first is not None and first not in self.commands
        return super().parse_args(ctx, ["show", *args] if is_account else args)


@click.group(cls=AudienceCommands, epilog=example("notifier audience @nova", "notifier audience verify @nova --repair"))
def audience() -> None:
    """Show and verify the audience of a mention of an account.

    `audience ACCOUNT` is short for `audience show ACCOUNT`.
    """


@audience.command(epilog=example("notifier audience @nova", "notifier audience show @nova --json"))
@click.argument("account", type=AccountParam())
@data_option
@json_option
def show(account: UserId, data: Path | None, as_json: bool) -> None:
    """Count the followers of an account by tier, and those that a mute or a preference excludes.

    Also shows how current the counts are.
    """
    from notifier.cli.opened_stores import open_stores

    settings = settings_for(data)
    with open_stores(settings) as stores:
        ports = stores.ports
        audience_counts = count_audience(ports, settings, account, quiet=as_json)
        freshness = audience_freshness(ports.log, ports.active_hours, ports.clock, settings.roll_up_every)
    if as_json:
        print_json({**audience_json(audience_counts), "fresh": freshness_json(freshness)})
    else:
        _print_counts(audience_counts)
        _print_freshness(freshness)


@audience.command(epilog=example("notifier audience verify @nova", "notifier audience verify @nova --sample 10000"))
@click.argument("account", type=AccountParam())
@click.option(
    "--sample",
    type=click.IntRange(1),
    default=None,
    help="Compare whole random shards until at least this many followers are compared.  [default: all]",
)
@click.option("--repair", is_flag=True, help="Have the running service rebuild wrong shards.")
@data_option
@json_option
@click.pass_context
def verify(
    ctx: click.Context, *, account: UserId, sample: int | None, repair: bool, data: Path | None, as_json: bool
) -> None:
    """Compare the bitmaps and counts of an account with the stored rows of follows and preferences.

    With --sample, only some shards are compared. The other shards are checked for unreadable bitmaps and wrong follower
    counts.

    Exit code 1 if anything differs or is unreadable.
    """
    from notifier.cli.opened_stores import open_stores
    from notifier.flow.indexing.audience_verification import AudienceVerification

    with open_stores(settings_for(data)) as stores:
        ports = stores.ports
        verification = AudienceVerification(
            directory=ports.directory,
            follows=ports.follows,
            subject_preferences=ports.subject_preferences,
            account_preferences=ports.account_preferences,
            sets=ports.sets,
            log=ports.log,
        )
        require_account(ports, account)
        shards = verification.shards(account)
        shards_in_order = shards if sample is None else random.sample(shards, len(shards))
        with progress("comparing", len(shards), quiet=as_json) as advance:
            compared = verification.verify(account, shards_in_order, sample or inf, advance)
            count_checked = verification.check_counts(account, shards_in_order[len(compared) :], advance)
        requested = verification.repair(account, [*compared, *count_checked]) if repair else 0
    report = drift_report(account, compared, count_checked, requested)
    if as_json:
        print_json(report)
    else:
        _print_drift(report)
    if report["wrong_shards"]:
        ctx.exit(1)


def drift_report(
    user: UserId, compared: Sequence[ShardComparison], count_checked: Sequence[ShardComparison], repairs_requested: int
) -> Mapping[str, object]:
    all_shards = [*compared, *count_checked]
    return {
        "account": user,
        "shards_compared": len(compared),
        "followers": sum(shard.followers for shard in compared),
        "shards_checked": len(count_checked),
        "wrong_shards": [shard.shard for shard in all_shards if shard.has_differences],
        "missing": sum(shard.missing for shard in all_shards),
        "extra": sum(shard.extra for shard in all_shards),
        "unreadable": sum(shard.unreadable for shard in all_shards),
        "wrong_counts": sum(shard.counted_followers != shard.followers for shard in all_shards),
        "repairs_requested": repairs_requested,
    }


def _print_drift(report: Mapping[str, object]) -> None:
    print_sentence(
        f"@{report['account']}: compared {report['followers']:,} followers in {report['shards_compared']:,} shards."
    )
    if checked := report["shards_checked"]:
        print_sentence(f"For {checked:,} more shards, checked only the bitmaps and the stored counts.")
    if not (wrong := report["wrong_shards"]):
        print_sentence("Bitmaps, counts and rows agree.")
        return
    assert isinstance(wrong, list)
    names = {"missing": "missing in bitmaps", "extra": "extra in bitmaps", "unreadable": "unreadable bitmaps"}
    names |= {"wrong_counts": "wrong stored counts"}
    print_fields({"wrong shards": len(wrong)} | {label: report[name] for name, label in names.items() if report[name]})
    if report["repairs_requested"]:
        print_sentence("The running `notifier up` or pump rebuilds them; verify again in a moment.")
    else:
        print_sentence("Use --repair to rebuild them from the rows.")


def require_account(ports: Ports, user: UserId) -> None:
    if user not in ports.directory.accounts([user]):
        raise NotFound(f"Account {user} doesn't exist.")


def count_audience(ports: Ports, settings: Settings, user: UserId, *, quiet: bool) -> AudienceCounts:
    """Count the audience of an account by tier. Raises NotFound if the account doesn't exist."""
    from notifier.flow.indexing.custom_tier_rule import load_tier_rule
    from notifier.flow.intake.mention_router import lane_with_hysteresis
    from notifier.flow.operations.audience_count import AudienceCounter

    require_account(ports, user)
    subject = Subject(Kind.MENTION, user)
    stored_counts = ports.sets.follower_counts(subject)
    lane = lane_with_hysteresis(ports.heads, subject, stored_counts.total, settings.threshold)
    with progress("counting", sum(map(bool, stored_counts.by_shard)), quiet=quiet) as advance:
        return AudienceCounter(sets=ports.sets, rule=load_tier_rule(settings.tier_rule)).count(subject, lane, advance)


def audience_json(counts: AudienceCounts) -> Mapping[str, object]:
    return {
        "account": counts.subject.owner,
        "lane": str(counts.lane),
        "followers": counts.followers,
        "planned_followers": counts.planned_followers,
        "shards": counts.shard_count,
        "tiers": [
            {"tier": str(tier), "people": people, "with_device": counts.push_enabled[tier]}
            for tier, people in counts.tiers.items()
        ],
        "suppressed": dict(counts.suppressed),
        "first_only": counts.first_only_count,
    }


def freshness_json(freshness: AudienceFreshness) -> Mapping[str, object]:
    at = freshness.rolled_up_at
    return {
        "activity": str(freshness.activity),
        "rolled_up_at": at and at.isoformat(),
        "unprocessed_records": dict(freshness.unprocessed_records),
    }


def _print_freshness(freshness: AudienceFreshness) -> None:
    click.echo()
    at = (
        "no roll-up is recorded"
        if freshness.rolled_up_at is None
        else f"last roll-up at {freshness.rolled_up_at:%F %T} UTC"
    )
    match freshness.activity:
        case ActiveSetFreshness.OFF:
            print_sentence("Activity is not rolled up: tiers stay as loaded.")
        case ActiveSetFreshness.CURRENT:
            print_sentence(f"Activity is current: {at}.")
        case ActiveSetFreshness.OUTDATED:
            print_sentence(f"Tiers use the last activity snapshot: {at}.")
    if unprocessed := {stream: n for stream, n in freshness.unprocessed_records.items() if n}:
        backlog = ", ".join(
            f"{n:,}{' or more' if n == MAX_COUNTED_RECORDS else ''} in {stream}" for stream, n in unprocessed.items()
        )
        print_sentence(f"Accepted but not counted yet: {backlog}.")
    else:
        print_sentence("All accepted changes of follows, accounts and activity are counted.")


def _print_counts(counts: AudienceCounts) -> None:
    print_sentence(
        f"@{counts.subject.owner} is in the {counts.lane} lane, with {counts.followers:,} followers"
        f" (shards: {counts.shard_count:,})."
    )
    if counts.planned_followers != counts.followers:
        print_sentence(f"The stored count, from which bursts are planned, is {counts.planned_followers:,}.")
    if not counts.followers:
        return
    click.echo()
    rows = [(str(tier), people, counts.push_enabled[tier]) for tier, people in counts.tiers.items()]
    rows += [(rule, people, 0) for rule, people in counts.suppressed.items()]
    print_table(
        ("", "users", "with device", "of all"),
        [(name, people, with_device, _format_share(people, counts.followers)) for name, people, with_device in rows],
    )
    if counts.first_only_count:
        click.echo()
        print_sentence(f"{counts.first_only_count:,} users in these tiers want only the first burst of a day.")


def _format_share(part: int, total: int) -> str:
    bar = "█" * round(MAX_BAR_WIDTH * part / total) if is_terminal() else ""
    return f"{100 * part / total:5.1f} % {bar}".rstrip()
