"""The edge: what the routes are wired from, and the threads in which the synchronous write path runs."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, ParamSpec, TypeVar
from urllib.parse import unquote

import msgspec
from litestar import Request
from litestar.datastructures import State
from litestar.di import NamedDependency
from litestar.params import SkipValidation

from notifier.api.auth.identity import Identity, identity_of
from notifier.api.auth.secrets import Keys
from notifier.api.background.activity_recorder import Noting, Pause
from notifier.api.background.event_batcher import Gathering
from notifier.api.background.inbox_auditor import Auditing
from notifier.api.background.latency_reporter import LATELY, Timing
from notifier.api.background.limiters import Hiding, Metering, Phones, metering
from notifier.api.background.overview_cache import Looking, Turns
from notifier.api.background.overview_watchers import Watchers
from notifier.api.opaque_ids import Opaque
from notifier.api.processes import Roles, loading
from notifier.api.schemas.rendering import Renderer
from notifier.api.schemas.system import told
from notifier.config.version import installed_version
from notifier.domain.bursts.burst import Burst
from notifier.domain.bursts.retraction import Retraction
from notifier.domain.ids import UserId
from notifier.domain.token_bucket import Limit
from notifier.domain.users.visibility import SETTLED_AFTER
from notifier.flow.inbox.burst_walk import place_of
from notifier.flow.inbox.gap_fetch import GapFetch
from notifier.flow.inbox.inbox import Inbox, Tab, Watch
from notifier.flow.inbox.looks import SharedLooks
from notifier.flow.inbox.page import Opened
from notifier.flow.inbox.preferences import Asking
from notifier.flow.inbox.shared_loads import Singleflight
from notifier.flow.inbox.store_breaker import PageDeadline
from notifier.flow.inbox.warm_up import WarmUp
from notifier.flow.intake.gateway import Gateway, Receipt
from notifier.flow.live.hub import Hub
from notifier.flow.operations.event_status import Fates
from notifier.flow.operations.preview import Preview
from notifier.metrics import Hits
from notifier.ports.bursts import RecentBursts
from notifier.ports.clock import Clock
from notifier.ports.event_log import Record
from notifier.wiring.system import Reads, System

RECENT_AT_ONCE = 500
"""Bursts in one read of the store: some milliseconds."""
THREADS = 64
"""So many requests may wait for one sync of the log; a thread that waits costs next to nothing."""

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    system: System
    gateway: Gateway
    preview: Preview
    fates: Fates
    tab: Tab
    inbox: Inbox
    warm_up: WarmUp
    renderer: Renderer
    gaps: GapFetch
    asking: Asking
    clock: Clock
    keys: Keys = field(repr=False)
    identity: Identity
    metering: Metering
    timing: Timing
    opaque: Opaque
    threads: ThreadPoolExecutor
    gathering: Gathering
    hiding: Hiding
    phones: Phones
    hub: Hub
    pause: Pause
    roles: Roles
    looking: Looking
    watchers: Watchers

    async def in_thread(self, ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Goes on to its end even when the one who asked has gone."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, partial(ask, *args, **kwargs))


Wired = NamedDependency[SkipValidation[Edge]]
Call = Request[UserId, float, State]


def written(request: Request[Any, Any, State], prefix: str, read: str) -> str:
    """What stands in the path behind the prefix. The router takes double slashes for single ones and drops the last; an
    id may have them, so what it read is only what is left where nothing else is."""
    raw = request.scope["raw_path"].partition(b"?")[0].decode("latin-1")
    return unquote(raw).partition(prefix)[2] or read


def edge(
    system: System, reads: Reads, keys: Keys, pause: Pause = asyncio.sleep, identity: Identity | None = None
) -> Edge:
    """Starts no thread before the first request. Raises BadSetting."""
    ports, gateway = system.ports, system.gateway()
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="edge")
    # What it has to say of what is taken back the retractor says again, so none of it is missed: or each that begins
    # would have all open pages loaded anew.
    system.voice.missed = False

    async def accept(body: bytes, batch: bool) -> Sequence[Receipt]:
        call = partial(gateway, body, batch=batch, settles=False)
        return await asyncio.get_running_loop().run_in_executor(threads, call)

    async def hide(retraction: Retraction) -> None:
        await asyncio.get_running_loop().run_in_executor(threads, gateway.at_once, [retraction])

    async def append(record: Record) -> None:
        await asyncio.get_running_loop().run_in_executor(threads, ports.log.append, [record])

    async def settle(spent: Mapping[str, int], limit: Limit) -> Mapping[str, float]:
        named = {f"{limit.name}:{who}": count for who, count in spent.items()}
        call = partial(ports.buckets.spend, named, limit.most, limit.refill)
        left = await asyncio.get_running_loop().run_in_executor(threads, call)
        return {who: left[f"{limit.name}:{who}"] for who in spent}

    async def tell(p99: timedelta) -> None:
        call = partial(ports.tabs.tell, system.owner, p99, LATELY)
        await asyncio.get_running_loop().run_in_executor(threads, call)

    async def recent(since: datetime) -> Sequence[Burst]:
        return await asyncio.get_running_loop().run_in_executor(threads, partial(_recent, ports.recent_bursts, since))

    async def in_thread(ask: Callable[[], T], /) -> T:
        return await asyncio.get_running_loop().run_in_executor(threads, ask)

    watch = _watching(system, reads, pause)
    opaque = Opaque.of(keys)
    tab = reads.tab(watch)
    renderer = Renderer(opaque=opaque, hits=Hits(system.metrics.inbox_cache, "items"))
    inbox = reads.inbox(
        metrics=system.metrics,
        loads=Singleflight,
        deadline=PageDeadline(system.settings.inbox.deadline),
        megabytes=system.settings.inbox.cache,
        share=lambda looks: SharedLooks(looks=looks, within=system.settings.inbox.deadline),
        watch=watch,
        render=renderer.remembered,
        maker=keys.derived(f"pages of {installed_version()}"),
    )
    hub = Hub(
        tab=tab,
        bus=reads.live,
        recent=recent,
        metrics=system.metrics,
        clock=ports.clock,
        pause=pause,
        most=system.settings.streams,
        name=ports.nonces.new(),
    )
    roles, overview = (
        Roles(folder=system.settings.data / "run" / "up", registry=system.metrics.registry),
        system.overview(),
    )

    def look() -> bytes:
        return msgspec.json.encode(told(overview(), roles, loading(system.settings.data)))

    async def looked() -> bytes:
        return await asyncio.get_running_loop().run_in_executor(threads, look)

    return Edge(
        system=system,
        gateway=gateway,
        preview=system.preview(Turns("Another preview is being counted right now.")),
        fates=Fates(
            bursts=ports.bursts,
            holds=ports.holds,
            ledger=ports.ledger,
            throttles=ports.throttles,
            recent=ports.recent,
            log=ports.log,
            clock=ports.clock,
            turn=Turns("Another event is looked for in the log right now."),
        ),
        tab=tab,
        gaps=reads.gap_fetch(),
        inbox=inbox,
        warm_up=WarmUp(inbox=inbox, metrics=system.metrics),
        renderer=renderer,
        asking=Asking(people=reads.people, preferences=reads.versioned_preferences(), clock=ports.clock, append=append),
        clock=ports.clock,
        keys=keys,
        identity=identity or identity_of(system.settings, keys, system.metrics),
        metering=metering(system.settings.limits, settle, ports.clock, system.metrics, pause),
        timing=Timing(tell=tell, clock=ports.clock, metrics=system.metrics, pause=pause),
        opaque=opaque,
        threads=threads,
        gathering=Gathering(accept),
        hiding=Hiding(settle=hide),
        phones=Phones(book=system.phonebook(), in_thread=in_thread),
        hub=hub,
        pause=pause,
        roles=roles,
        looking=Looking(looked),
        watchers=Watchers(),
    )


def _recent(bursts: RecentBursts, since: datetime) -> Sequence[Burst]:
    """Oldest first; they are told in this order."""
    found, behind = list[Burst](), None
    while page := bursts.since(since, behind, RECENT_AT_ONCE):
        found += page
        behind = place_of(page[-1])
    return found[::-1]


def _watching(system: System, reads: Reads, pause: Pause) -> Watch:
    settling = partial(pause, SETTLED_AFTER.total_seconds())
    noting = Noting(activity=reads.activity, metrics=system.metrics, pause=pause)
    auditing = Auditing(audit=reads.audit(system.metrics, settling), pause=pause)

    def watch(opened: Opened) -> None:
        noting(opened)
        auditing(opened)

    return watch
