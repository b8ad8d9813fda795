"""Commands that send events to a running service, such as `notifier mention`."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from secrets import token_hex

import click

from notifier.cli.command_groups_and_errors import CommandGroup, example
from notifier.cli.options import AccountParam, DurationParam, data_option, json_option, settings_for
from notifier.cli.output import print_fields, print_json, print_sentence
from notifier.cli.running_service import (
    EventSender,
    cloud_event,
    request_json,
    sends_events,
    sequence_at,
    sequence_option,
)
from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, members
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.ids import Member, UserId
from notifier.domain.upstream.validation import (
    BLOCKED_TYPE,
    CHANGED_TYPE,
    DELETED_TYPE,
    ERASED_TYPE,
    FOLLOWED_TYPE,
    MENTIONED_TYPE,
    PROTECTED_TYPE,
    UNBLOCKED_TYPE,
    UNFOLLOWED_TYPE,
    id_problem,
)
from notifier.ports.all_ports import Ports


@click.command(epilog=example('notifier mention --author ada --of nova --text "hello @nova"'))
@click.option("--author", type=AccountParam(), required=True, help="Author of the tweet.")
@click.option(
    "--of", "mentioned", type=AccountParam(), required=True, multiple=True, help="Mentioned account; may be repeated."
)
@click.option("--text", default=None, help="Text of the tweet.  [default: hello and the names]")
@click.option(
    "--id",
    "id",
    default=None,
    help="Event id. An event with the id of an earlier one is a duplicate.  [default: a new id]",
)
@click.option("--protected", is_flag=True, help="Show the tweet to the author's followers only.")
@sends_events
def mention(
    *,
    author: str,
    mentioned: tuple[str, ...],
    text: str | None,
    id: str | None,
    protected: bool,
    sender: EventSender,
) -> None:
    """Send a mention to the running service, and print its receipt."""
    event_id = id or token_hex(8)
    content = text if text is not None else " ".join(["hello", *(f"@{account}" for account in mentioned)])
    sender.send(mention_event(event_id, author, mentioned, text=content, protected=protected, now=datetime.now(UTC)))


def mention_event(
    id: str, author: str, mentioned: tuple[str, ...], *, text: str, protected: bool, now: datetime
) -> Mapping[str, object]:
    """Return a CloudEvent like those of the tweet service."""
    tweet = {"tweet": f"t-{id}", "author": author, "mentions": list(mentioned), "text": text, "protected": protected}
    return cloud_event(MENTIONED_TYPE, tweet, now, id)


# Command `notifier retract`: sends events of the tweet service or the account service.


@click.command(
    epilog=example("notifier retract --author ada --tweet t-1", "notifier retract --author ada --all --protected")
)
@click.option(
    "--author",
    type=AccountParam(),
    required=True,
    help="Author of the tweets; tweets of other authors are not retracted.",
)
@click.option("--tweet", default=None, help="Tweet id, as in its event.")
@click.option("--all", "all_tweets", is_flag=True, help="Retract all tweets of the author so far.")
@click.option("--protected", is_flag=True, help="With --all: keep the tweets visible to the author's followers.")
@sends_events
def retract(*, author: str, tweet: str | None, all_tweets: bool, protected: bool, sender: EventSender) -> None:
    """Retract a tweet, or all tweets of an author, and print the receipt.

    Retracted tweets are hidden from all users. With --all --protected, the author's followers still see them.
    """
    if all_tweets is (tweet is not None):
        raise click.UsageError("Give either --tweet, or --all for all tweets of the author.")
    if protected and not all_tweets:
        raise click.UsageError("--protected needs --all: a single tweet is retracted for all users.")
    sender.send(retract_event(author, tweet, protected=protected, now=datetime.now(UTC)))


def retract_event(author: str, tweet: str | None, *, protected: bool, now: datetime) -> Mapping[str, object]:
    if tweet is not None:
        return cloud_event(DELETED_TYPE, {"tweet": tweet, "author": author}, now)
    return cloud_event(PROTECTED_TYPE if protected else ERASED_TYPE, {"user": author}, now)


# Command `notifier follow`: sends events of the graph service.


@click.command(
    epilog=example("notifier follow --follower u8 --of nova", "notifier follow --follower u8 --of nova --end")
)
@click.option("--follower", type=AccountParam(), required=True, help="Account that follows.")
@click.option("--of", "followed", type=AccountParam(), required=True, help="Account that is followed.")
@click.option("--end", is_flag=True, help="End the follow.")
@sequence_option
@sends_events
def follow(*, follower: str, followed: str, end: bool, sequence: int | None, sender: EventSender) -> None:
    """Add or end a follow, and print the receipt."""
    sender.send(follow_event(follower, followed, end=end, sequence=sequence, now=datetime.now(UTC)))


def follow_event(
    follower: str, followed: str, *, end: bool, sequence: int | None, now: datetime
) -> Mapping[str, object]:
    pair = {"follower": follower, "followed": followed, "sequence": sequence or sequence_at(now)}
    event_type = UNFOLLOWED_TYPE if end else FOLLOWED_TYPE
    return cloud_event(event_type, pair, now)


# Commands `notifier block` and `notifier unblock`: send events of the graph service.

by_option = click.option("--by", "blocker", type=AccountParam(), required=True, help="Account that blocks.")


@click.command(epilog=example("notifier block @eve --by @ada"))
@click.argument("blocked", type=AccountParam())
@by_option
@sequence_option
@sends_events
def block(*, blocked: UserId, blocker: UserId, sequence: int | None, sender: EventSender) -> None:
    """Block an account, and print the receipt.

    From then on, both accounts are hidden from each other.
    """
    sender.send(block_event(blocker, blocked, blocks=True, sequence=sequence, now=datetime.now(UTC)))


@click.command(epilog=example("notifier unblock @eve --by @ada"))
@click.argument("blocked", type=AccountParam())
@by_option
@sequence_option
@sends_events
def unblock(*, blocked: UserId, blocker: UserId, sequence: int | None, sender: EventSender) -> None:
    """Unblock an account, and print the receipt.

    Bursts that open from then on are visible again.
    """
    sender.send(block_event(blocker, blocked, blocks=False, sequence=sequence, now=datetime.now(UTC)))


def block_event(
    blocker: UserId, blocked: UserId, *, blocks: bool, sequence: int | None, now: datetime
) -> Mapping[str, object]:
    """Return a CloudEvent."""
    pair = {"blocker": blocker, "blocked": blocked}
    event_type = BLOCKED_TYPE if blocks else UNBLOCKED_TYPE
    return cloud_event(event_type, {**pair, "sequence": sequence or sequence_at(now)}, now)


# Command `notifier vip`: sends events of the account service.

SHARDS_PER_READ = 64
"""Shards per read of the VIP bitmaps: at most 1 MB."""
MAX_ACCOUNTS = 1_000
"""Maximum number of accounts per command. They are sent as one batch of events."""


@click.group(cls=CommandGroup, epilog=example("notifier vip add @ada @bob", "notifier vip list"))
def vip() -> None:
    """Add, remove and list VIPs.

    Alerts and rows are delivered first to VIPs who were active within 7 days.
    """


@vip.command(epilog=example("notifier vip add @ada @bob"))
@click.argument("accounts", type=AccountParam(), nargs=-1, required=True)
@sends_events
def add(*, accounts: Sequence[UserId], sender: EventSender) -> None:
    """Flag accounts as VIPs. This takes effect within moments."""
    _send_vip_flags(accounts, sender, is_vip=True)


@vip.command(epilog=example("notifier vip remove @ada"))
@click.argument("accounts", type=AccountParam(), nargs=-1, required=True)
@sends_events
def remove(*, accounts: Sequence[UserId], sender: EventSender) -> None:
    """Remove the VIP flag from accounts."""
    _send_vip_flags(accounts, sender, is_vip=False)


@vip.command(name="list", epilog=example("notifier vip list", "notifier vip list --limit 10 --json"))
@click.option(
    "--limit", type=click.IntRange(1), default=100, show_default=True, help="Maximum number of accounts to list."
)
@data_option
@json_option
def list_vips(limit: int, data: Path | None, *, as_json: bool) -> None:
    """List the VIPs and their total number, from the bitmaps that fan-out uses."""
    from notifier.cli.opened_stores import open_stores

    with open_stores(settings_for(data)) as stores:
        total, names = first_vips(stores.ports, limit)
    if as_json:
        print_json({"vips": total, "accounts": names})
        return
    for name in names:
        print_sentence(f"@{name}")
    limited = "" if total == len(names) else f"; the first {limit:,} are listed"
    print_sentence(f"{total:,} {'account is a VIP' if total == 1 else 'accounts are VIPs'}{limited}.")


def first_vips(ports: Ports, limit: int) -> tuple[int, Sequence[UserId]]:
    """Return the total number of VIPs, and the first `limit` of them by member number."""
    total, first = 0, list[Member]()
    for shard, bits in _vip_bitmaps(ports):
        vips = members(bits, shard)
        total += len(vips)
        first += islice(vips, limit - len(first))
    names = ports.directory.users(first)
    return total, [names[member] for member in first if member in names]


def _vip_bitmaps(ports: Ports) -> Iterator[tuple[int, Bits]]:
    shards = range(-(-ports.directory.next_number() // SHARD_MEMBERS))
    for begin in range(0, len(shards), SHARDS_PER_READ):
        yield from sorted(ports.sets.read(SetKind.VIP, None, shards[begin : begin + SHARDS_PER_READ]).items())


def _send_vip_flags(accounts: Sequence[UserId], sender: EventSender, *, is_vip: bool) -> None:
    names = list(dict.fromkeys(accounts))
    if len(names) > MAX_ACCOUNTS:
        raise click.UsageError(f"Give at most {MAX_ACCOUNTS:,} accounts at a time, not {len(names):,}.")
    for problem in filter(None, map(id_problem, names)):
        raise click.UsageError(f"Invalid account name: it {problem}.")
    results = sender.send_all([vip_event(name, is_vip=is_vip, now=datetime.now(UTC)) for name in names])
    if sender.as_json:
        print_json({"results": results})
    else:
        accounts_text = ", ".join(f"@{name}" for name in names)
        print_sentence(
            f"Sent for {accounts_text}: {'VIP' if is_vip else 'not a VIP'}. Bitmaps are updated within moments."
        )


def vip_event(user: str, *, is_vip: bool, now: datetime) -> Mapping[str, object]:
    return cloud_event(CHANGED_TYPE, {"user": user, "vip": is_vip, "sequence": sequence_at(now)}, now)


# Command `notifier storm`.

BATCHES_PER_SECOND = 10
BATCH_CONTENT_TYPE = "application/cloudevents-batch+json"


@click.command(epilog=example("notifier storm --of nova --rate 100 --for 10s"))
@click.option("--of", "account", type=AccountParam(), default="nova", show_default=True, help="Mentioned account.")
@click.option("--rate", type=click.IntRange(10, 5000), default=100, show_default=True, help="Mentions per second.")
@click.option(
    "--for", "duration", type=DurationParam(), default="10s", show_default=True, help="Duration, like 10s or 1m."
)
@data_option
@json_option
def storm(*, account: str, rate: int, duration: timedelta, data: Path | None, as_json: bool) -> None:
    """Send many mentions of one account at a constant rate."""
    from notifier.api.demo.traffic import mention_batch
    from notifier.cli.running_service import read_ready

    ready = read_ready(settings_for(data).data)
    batches = max(1, round(duration.total_seconds() * BATCHES_PER_SECOND))
    sent = accepted = 0
    began = time.monotonic()
    for number in range(batches):
        size = rate * (number + 1) // BATCHES_PER_SECOND - sent  # the batches of a second sum to `rate`
        time.sleep(max(0.0, began + number / BATCHES_PER_SECOND - time.monotonic()))
        body = mention_batch([account] * size, now=datetime.now(UTC), new_id=lambda: token_hex(8))
        results = request_json(
            f"{ready.url}/v1/events", ready.service_key, json.dumps(body).encode(), BATCH_CONTENT_TYPE
        )["results"]
        assert isinstance(results, list)
        sent += size
        accepted += sum(result.get("status") == "accepted" for result in results)
    result = {"sent": sent, "accepted": accepted, "seconds": round(time.monotonic() - began, 1)}
    if as_json:
        print_json(result)
    else:
        print_fields(result)
