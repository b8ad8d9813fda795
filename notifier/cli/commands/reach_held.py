"""`notifier reach held`, `release` and `drop`: what waits for a person to decide, and the decision."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import nsmallest
from itertools import islice
from pathlib import Path

import click

from notifier.cli.commands.throttle import SHORTEST, who_option
from notifier.cli.group import example
from notifier.cli.options import data_option, json_option, settings_for
from notifier.cli.output import SHOWN_OF_ID, print_json, print_sentence, print_table, stamp
from notifier.domain.bursts.held_mention import WAITS, Decision, Hold
from notifier.domain.errors import NotFound
from notifier.domain.ids import UserId
from notifier.ports.all_ports import Ports

TOGETHER = 500
"""Are let go in one append."""
SHOWN_OF_TEXT = 60
"""Characters; JSON has all that is kept."""

Decide = Callable[[Sequence[Hold]], Sequence[Hold]]

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
        print_json([facts(hold) for hold in found])
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
    _print(done, "on their way", as_json=as_json)


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

        def away(some: Sequence[Hold]) -> Sequence[Hold]:
            return [hold for hold in some if ports.holds.decide(hold.id, Decision.DROPPED, who, now)]

        done = _decided(ports, ids, by, away)
        done = _readable(ports, done) if as_json else done
    _print(done, "dropped", as_json=as_json)


def _readable(ports: Ports, holds: Sequence[Hold]) -> Sequence[Hold]:
    """Return the holds without the text of what was retracted meanwhile."""
    from notifier.flow.intake.held_mentions import with_current_text

    return with_current_text(ports.retractions, holds)


def waiting(ports: Ports, *, of: str | None = None, by: str | None = None) -> Iterator[Hold]:
    account, author = (None if name is None else UserId(name.removeprefix("@")) for name in (of, by))
    return (
        hold
        for hold in ports.holds.waiting()
        if author in (None, hold.author) and (account is None or account in hold.accounts)
    )


def meant(ids: Sequence[str], known: Iterable[Hold]) -> Sequence[Hold]:
    """Those that wait and are meant, each once. Raises UsageError for a beginning that isn't clear, NotFound."""
    if short := next((id for id in ids if len(id) < SHORTEST), None):
        raise click.UsageError(f"{short!r} is too little of an id: give its first {SHORTEST} characters.")
    some = [hold for hold in known if hold.key.startswith(tuple(ids))]
    found = dict[str, Hold]()
    for id in ids:
        named = [hold for hold in some if hold.key.startswith(id)]
        if not named:
            raise NotFound(f"No mention {id} waits.")
        if len(named) > 1:
            raise click.UsageError(f"The ids of {len(named)} mentions begin with {id}; give more of the one you mean.")
        found[named[0].key] = named[0]
    return list(found.values())


def _decided(ports: Ports, ids: Sequence[str], by: str | None, decide: Decide) -> Sequence[Hold]:
    """All that was meant, some at a time. Raises NotFound where nothing was, or somebody else was faster."""
    if bool(ids) == (by is not None):
        raise click.UsageError("Give ids, as `notifier reach held` shows them, or --by an account.")
    wanted = iter(meant(ids, ports.holds.waiting()) if ids else waiting(ports, by=by))
    done = list[Hold]()
    while some := list(islice(wanted, TOGETHER)):
        done += decide(some)
    if not done:
        raise NotFound(f"No mention {'by @' + by.removeprefix('@') if by else ', '.join(ids)} waits.")
    return done


def facts(hold: Hold) -> dict[str, object]:
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


def _print(done: Sequence[Hold], what: str, *, as_json: bool) -> None:
    if as_json:
        print_json([facts(hold) for hold in done])
        return
    number = "1 mention is" if len(done) == 1 else f"{len(done):,} mentions are"
    print_sentence(f"{number} {what}.")


def _accounts(hold: Hold) -> str:
    first = " ".join(f"@{name}" for name in hold.accounts[:3])
    return first if len(hold.accounts) <= 3 else f"{first} and {len(hold.accounts) - 3} others"


def _text(hold: Hold) -> str:
    return hold.event.text if hold.event else ""
