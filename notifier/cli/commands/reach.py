"""`notifier reach`: how far one account's mentions of others carry, by hand; and what is held for it."""

from pathlib import Path

import click

from notifier.cli.commands.reach_held import drop, held, release
from notifier.cli.commands.throttle import who_option
from notifier.cli.group import Family, example
from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import print_facts, print_json, print_sentence, print_table, stamp
from notifier.domain.bursts.moderation import ReachWord, Verdict, checked
from notifier.domain.errors import NotFound
from notifier.domain.ids import UserId
from notifier.domain.upstream.validation import fault
from notifier.ports.all_ports import Ports


@click.group(
    cls=Family, epilog=example('notifier reach set @bob --verdict hold --reason "a flood"', "notifier reach held")
)
def reach() -> None:
    """Say how far an account's mentions of others carry, and decide over what is held.

    \b
    all   rows and alerts
    row   rows, and no phone is woken
    hold  nothing, until somebody lets it go; 30 days at most
    deny  nothing
    """


@reach.command("set", epilog=example('notifier reach set @bob --verdict hold --reason "a flood of links"'))
@click.argument("account")
@click.option("--verdict", type=click.Choice([str(each) for each in Verdict]), required=True, help="How far.")
@click.option("--reason", required=True, help="For whoever sees it next.")
@click.option("--unheard", is_flag=True, help="Also of an account that the directory has never heard of.")
@who_option
@data_option
@json_option
def set_reach(
    *, account: str, verdict: str, reason: str, unheard: bool, who: str, data: Path | None, as_json: bool
) -> None:
    """Say how far an account's mentions carry, from its next mention on and until something else is said.

    Exit code 1 where somebody has said something else meanwhile, which stands: then that is told.
    """
    from notifier.cli.context import opened

    user = named(account)
    with opened(settings_for(data)) as folder:
        ports = folder.ports
        before = ports.reaches.standing([user]).get(user)
        if before is None and not unheard:
            require(ports, user)
        now = ports.clock.now()
        word = checked(ReachWord(user=user, verdict=Verdict(verdict), reason=reason, who=who, at=now), before)
        ports.reaches.say(word)
        # What two say at the same moment is decided by the store, and both are in the audit.
        stands = ports.reaches.standing([user])[user]
    _print(stands, as_json=as_json)
    if stands != word:
        click.echo(f"What you said doesn't stand: {stands.who} has said this of @{user} meanwhile.", err=True)
        click.get_current_context().exit(1)


@reach.command("list", epilog=example("notifier reach list", "notifier reach list --json"))
@data_option
@json_option
def list_reaches(data: Path | None, as_json: bool) -> None:
    """List whose mentions don't carry all the way, with who said so, why and when."""
    from notifier.cli.context import opened

    with opened(settings_for(data)) as folder:
        found = [word for word in folder.ports.reaches.listed() if word.verdict is not Verdict.ALL]
    if as_json:
        print_json([facts(word) for word in found])
    elif not found:
        print_sentence("Everybody's mentions carry all the way.")
    else:
        rows = [(f"@{word.user}", word.verdict, word.at, word.who, word.reason) for word in found]
        print_table(("account", "verdict", "since", "who", "reason"), rows)


@reach.command(epilog=example("notifier reach show @bob"))
@click.argument("account")
@data_option
@json_option
def show(account: str, data: Path | None, as_json: bool) -> None:
    """Show how far an account's mentions carry, and who said so last."""
    from notifier.cli.context import opened

    user = named(account)
    with opened(settings_for(data)) as folder:
        word = folder.ports.reaches.standing([user]).get(user)
        if word is None:
            require(folder.ports, user)
    if word is not None:
        _print(word, as_json=as_json)
    elif as_json:
        print_json({"account": user, "verdict": str(Verdict.ALL), "reason": None, "who": None, "at": None})
    else:
        print_sentence(f"Nothing was said of @{user}: the mentions carry all the way.")


def named(account: str) -> UserId:
    """Raises UsageError for what is no account's name."""
    user = account.removeprefix("@")
    if why := fault(user):
        raise click.UsageError(f"An account's name {why}.")
    return UserId(user)


def require(ports: Ports, user: UserId) -> None:
    if user not in ports.directory.accounts([user]):
        raise NotFound(f"The account is {user}; --unheard says it all the same.")


def facts(word: ReachWord) -> dict[str, object]:
    return {
        "account": word.user,
        "verdict": str(word.verdict),
        "reason": word.reason,
        "who": word.who,
        "at": stamp(word.at),
    }


def _print(word: ReachWord, *, as_json: bool) -> None:
    if as_json:
        print_json(facts(word))
    else:
        print_facts(facts(word) | {"account": f"@{word.user}"})


for verb in (held, release, drop):
    reach.add_command(verb)
