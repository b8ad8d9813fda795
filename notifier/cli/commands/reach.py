"""`notifier reach`: how far one account's mentions of others carry, by hand; and what is held for it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import nsmallest
from itertools import islice
from pathlib import Path

import click

from notifier.cli.commands.throttle import SHORTEST, who_option
from notifier.cli.group import Family, example
from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import SHOWN_OF_ID, print_facts, print_json, print_sentence, print_table, stamp
from notifier.domain.bursts.held_mention import WAITS, HeldMention, ModerationDecision
from notifier.domain.bursts.moderation import ReachWord, Verdict, checked
from notifier.domain.errors import NotFound
from notifier.domain.ids import UserId
from notifier.domain.upstream.validation import fault
from notifier.ports.all_ports import Ports

# `notifier reach held`, `release` and `drop`: what waits for a person to decide, and the decision.

TOGETHER = 500
"""Are let go in one append."""
SHOWN_OF_TEXT = 60
"""Characters; JSON has all that is kept."""

Decide = Callable[[Sequence[HeldMention]], Sequence[HeldMention]]

of_option = click.option("--of", "of", default=None, help="Only mentions of this account.")
by_option = click.option("--by", "by", default=None, help="Only mentions by this account.")
all_by_option = click.option("--by", "by", default=None, help="Instead of ids: all that waits of this account's.")


@click.command(epilog=example("notifier reach held", "notifier reach held --of @nova --by @bob --json"))
@of_option
@by_option
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="The most that are listed.")
@data_option
@json_option
def held(*, of: str | None, by: str | None, limit: int, data: Path | None, as_json: bool) -> None:
    """List the mentions that are held, those that wait longest first; each waits 30 days at most."""
    from notifier.cli.context import opened

    settings = settings_for(data)
    with opened(settings) as folder:
        longest = nsmallest(limit, waiting(folder.ports, of=of, by=by), key=lambda hold: (hold.since, hold.id))
        found = _readable(folder.ports, longest)
    if as_json:
        print_json([held_facts(hold) for hold in found])
    elif not found:
        print_sentence("No mention is held.")
    else:
        rows = [
            (hold.key[:SHOWN_OF_ID], hold.since, f"@{hold.author}", _accounts(hold), _text(hold)[:SHOWN_OF_TEXT])
            for hold in found
        ]
        print_table(("id", "since", "by", "of", "text"), rows)


@click.command(epilog=example("notifier reach release 2789d953", "notifier reach release --by @bob"))
@click.argument("ids", nargs=-1)
@all_by_option
@who_option
@data_option
@json_option
def release(*, ids: Sequence[str], by: str | None, who: str, data: Path | None, as_json: bool) -> None:
    """Let held mentions go: each is told now, once, as far as its rate cap lets it.

    IDS are as `notifier reach held` shows them, or their first six characters if they are clear. What else is held of
    the account's stays so, and `deny` said meanwhile counts more.
    """
    from notifier.cli.context import opened
    from notifier.flow.intake.held_mentions import Release

    settings = settings_for(data)
    with opened(settings) as folder:
        go = Release.of(folder.ports)
        done = _decided(folder.ports, ids, by, lambda some: go(some, who))
        done = _readable(folder.ports, done) if as_json else done
    _print_reach_held(done, "on their way", as_json=as_json)


@click.command(epilog=example("notifier reach drop 2789d953", "notifier reach drop --by @bob"))
@click.argument("ids", nargs=-1)
@all_by_option
@who_option
@data_option
@json_option
def drop(*, ids: Sequence[str], by: str | None, who: str, data: Path | None, as_json: bool) -> None:
    """Discard held mentions: nobody is told of them, and their sender is told that they were denied.

    IDS are as for `notifier reach release`.
    """
    from notifier.cli.context import opened

    settings = settings_for(data)
    with opened(settings) as folder:
        ports = folder.ports
        now = ports.clock.now()

        def away(some: Sequence[HeldMention]) -> Sequence[HeldMention]:
            return [hold for hold in some if ports.holds.decide(hold.id, ModerationDecision.DROPPED, who, now)]

        done = _decided(ports, ids, by, away)
        done = _readable(ports, done) if as_json else done
    _print_reach_held(done, "dropped", as_json=as_json)


def _readable(ports: Ports, holds: Sequence[HeldMention]) -> Sequence[HeldMention]:
    """Return the holds without the text of what was retracted meanwhile."""
    from notifier.flow.intake.held_mentions import with_current_text

    return with_current_text(ports.retractions, holds)


def waiting(ports: Ports, *, of: str | None = None, by: str | None = None) -> Iterator[HeldMention]:
    account, author = (None if name is None else UserId(name.removeprefix("@")) for name in (of, by))
    return (
        hold
        for hold in ports.holds.waiting()
        if author in (None, hold.author) and (account is None or account in hold.accounts)
    )


def meant(ids: Sequence[str], known: Iterable[HeldMention]) -> Sequence[HeldMention]:
    """Those that wait and are meant, each once. Raises UsageError for a beginning that isn't clear, NotFound."""
    if short := next((id for id in ids if len(id) < SHORTEST), None):
        raise click.UsageError(f"{short!r} is too little of an id: give its first {SHORTEST} characters.")
    some = [hold for hold in known if hold.key.startswith(tuple(ids))]
    found = dict[str, HeldMention]()
    for id in ids:
        named = [hold for hold in some if hold.key.startswith(id)]
        if not named:
            raise NotFound(f"No mention {id} waits.")
        if len(named) > 1:
            raise click.UsageError(f"The ids of {len(named)} mentions begin with {id}; give more of the one you mean.")
        found[named[0].key] = named[0]
    return list(found.values())


def _decided(ports: Ports, ids: Sequence[str], by: str | None, decide: Decide) -> Sequence[HeldMention]:
    """All that was meant, some at a time. Raises NotFound where nothing was, or somebody else was faster."""
    if bool(ids) == (by is not None):
        raise click.UsageError("Give ids, as `notifier reach held` shows them, or --by an account.")
    wanted = iter(meant(ids, ports.holds.waiting()) if ids else waiting(ports, by=by))
    done = list[HeldMention]()
    while some := list(islice(wanted, TOGETHER)):
        done += decide(some)
    if not done:
        raise NotFound(f"No mention {'by @' + by.removeprefix('@') if by else ', '.join(ids)} waits.")
    return done


def held_facts(hold: HeldMention) -> dict[str, object]:
    return {
        "id": hold.key,
        "source": hold.id.source,
        "event": hold.id.id,
        "by": hold.author,
        "of": list(hold.accounts),
        "since": stamp(hold.since),
        "until": stamp(hold.since + WAITS),
        "text": _text(hold),
    }


def _print_reach_held(done: Sequence[HeldMention], what: str, *, as_json: bool) -> None:
    if as_json:
        print_json([held_facts(hold) for hold in done])
        return
    number = "1 mention is" if len(done) == 1 else f"{len(done):,} mentions are"
    print_sentence(f"{number} {what}.")


def _accounts(hold: HeldMention) -> str:
    first = " ".join(f"@{name}" for name in hold.accounts[:3])
    return first if len(hold.accounts) <= 3 else f"{first} and {len(hold.accounts) - 3} others"


def _text(hold: HeldMention) -> str:
    return hold.event.text if hold.event else ""


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
