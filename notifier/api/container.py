"""Dependency container of one API process."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar
from urllib.parse import unquote

from litestar import Request
from litestar.datastructures import State
from litestar.di import NamedDependency
from litestar.params import SkipValidation

from notifier.api.auth.authenticators import Authenticator, build_authenticator
from notifier.api.auth.service_and_installation_keys import InstallationKeys
from notifier.api.background.activity_recorder import ActivityRecorder, Pause
from notifier.api.background.event_intake import EventIntake
from notifier.api.background.overview_snapshots import (
    OverviewReader,
    OverviewStreamLimit,
    RequestLock,
    SharedSnapshots,
)
from notifier.api.background.page_audit_sampler import PageAuditSampler
from notifier.api.background.page_latency import PageLatency
from notifier.api.background.request_limiters import DeviceRequestLimiter, RequestMeter, request_meter
from notifier.api.opaque_ids import OpaqueIds
from notifier.api.process_status_loading_progress_metrics import RoleProcesses
from notifier.api.request_threads import RequestThreads, ThreadedBursts, ThreadedLog, limited_threads
from notifier.api.schemas.page_rendering import Renderer
from notifier.concurrency_and_time_limits import Threads
from notifier.config.settings_and_environment import installed_version
from notifier.domain.ids import UserId
from notifier.flow.inbox.gap_fetch import GapFetch
from notifier.flow.inbox.inbox import AnswerObserver, Inbox
from notifier.flow.inbox.page_deadline_and_breaker import PageDeadline
from notifier.flow.inbox.preference_editor import PreferenceEditor
from notifier.flow.inbox.shared_loads import Singleflight
from notifier.flow.inbox.warm_up import WarmUp
from notifier.flow.live.hub import LiveHub
from notifier.flow.operations.event_status import EventStatusLookup
from notifier.flow.operations.preview import Preview
from notifier.metrics import CacheCounters
from notifier.ports.all_ports import ReadPorts
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.wiring.inbox import (
    build_audit,
    build_gap_fetch,
    build_inbox,
    build_uncached_inbox,
    build_versioned_preferences,
)
from notifier.wiring.indexers_and_device_registry import build_device_registry
from notifier.wiring.intake import build_gateway
from notifier.wiring.operations import build_event_status, build_overview, build_preview
from notifier.wiring.shared_parts import System

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiContainer:
    """The dependencies of all routes. One instance per application and event loop."""

    system: System
    clock: Clock
    pause: Pause
    threads: RequestThreads
    keys: InstallationKeys = field(repr=False)
    authenticator: Authenticator
    opaque_ids: OpaqueIds
    request_meter: RequestMeter
    intake: EventIntake
    preview: Preview
    event_status: EventStatusLookup
    inbox: Inbox
    warm_up: WarmUp
    renderer: Renderer
    page_latency: PageLatency
    gap_fetch: GapFetch
    hub: LiveHub
    preference_editor: PreferenceEditor
    device_requests: DeviceRequestLimiter
    roles: RoleProcesses
    overview_snapshots: SharedSnapshots
    overview_streams: OverviewStreamLimit

    async def in_thread(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call blocking code in a thread. A started call runs to completion even if the client disconnects."""
        return await self.threads.run(call, *args, **kwargs)

    def close(self) -> None:
        self.hub.close()
        self.threads.close()


WiredContainer = NamedDependency[SkipValidation[ApiContainer]]
"""Type of a route's parameter `container`, which the framework passes."""
UserRequest = Request[UserId, float, State]
"""Request of a user, which carries the user's id, and as `auth` the Unix time from which the token is rejected."""


def raw_path_part(request: Request[Any, Any, State], prefix: str, default: str) -> str:
    """Return the path after the prefix, percent-decoded, or `default` if there is no prefix or nothing after it.

    `default` is the path parameter as the router parsed it. The router collapses double slashes and drops a trailing
    slash, but an id may contain them.
    """
    raw = request.scope["raw_path"].partition(b"?")[0].decode("latin-1")
    return unquote(raw).partition(prefix)[2] or default


def build_container(
    system: System,
    reads: ReadPorts,
    keys: InstallationKeys,
    pause: Pause = asyncio.sleep,
    authenticator: Authenticator | None = None,
) -> ApiContainer:
    """Build the container. Raises BadSetting."""
    ports, settings, metrics = system.ports, system.settings, system.metrics
    threads = RequestThreads()
    # By default a new live publisher first makes all open pages reload, because an earlier process may have left
    # bursts unsent. An API process publishes only bursts that a retraction changed, and the retractor publishes these
    # again, so no reload is needed.
    system.live_publisher.has_missed_updates = False
    opaque_ids = OpaqueIds.of(keys)
    renderer = Renderer(opaque_ids=opaque_ids, stats=CacheCounters(metrics.inbox_cache, "items"))
    observers = _observers(system, reads, pause)
    inbox = _inbox(system, reads, keys, renderer, observers)
    roles = RoleProcesses(folder=settings.data / "run" / "up", registry=metrics.registry)
    return ApiContainer(
        system=system,
        clock=ports.clock,
        pause=pause,
        threads=threads,
        keys=keys,
        authenticator=authenticator or build_authenticator(settings, keys, metrics),
        opaque_ids=opaque_ids,
        request_meter=request_meter(
            settings.limits,
            buckets=ports.token_buckets,
            threads=threads,
            clock=ports.clock,
            metrics=metrics,
            pause=pause,
        ),
        intake=EventIntake(gateway=build_gateway(system), threads=threads),
        preview=build_preview(system, RequestLock("Another preview is being computed; try again later.")),
        event_status=build_event_status(
            system, RequestLock("Another event is being looked up in the log; try again later.")
        ),
        inbox=inbox,
        warm_up=WarmUp(inbox=inbox, metrics=metrics),
        renderer=renderer,
        page_latency=PageLatency(
            report=ports.inbox_latency,
            owner=system.owner,
            threads=threads,
            clock=ports.clock,
            metrics=metrics,
            pause=pause,
        ),
        gap_fetch=build_gap_fetch(reads),
        hub=_hub(system, reads, threads, observers, pause),
        preference_editor=PreferenceEditor(
            people=reads.people,
            preferences=build_versioned_preferences(reads),
            clock=ports.clock,
            log=ThreadedLog(log=ports.log, threads=threads),
        ),
        device_requests=DeviceRequestLimiter(registry=build_device_registry(system), threads=limited_threads(threads)),
        roles=roles,
        overview_snapshots=SharedSnapshots(
            OverviewReader(overview=build_overview(system), roles=roles, data=settings.data, threads=threads)
        ),
        overview_streams=OverviewStreamLimit(),
    )


def _observers(system: System, reads: ReadPorts, pause: Pause) -> Sequence[AnswerObserver]:
    """Build the observers of pages, badges and new streams."""
    page_audit = build_audit(reads, system.metrics, pause)
    return (
        ActivityRecorder(activity=reads.activity, metrics=system.metrics, pause=pause),
        PageAuditSampler(audit=page_audit, pause=pause),
    )


def _inbox(
    system: System, reads: ReadPorts, keys: InstallationKeys, renderer: Renderer, observers: Sequence[AnswerObserver]
) -> Inbox:
    settings = system.settings.inbox
    return build_inbox(
        reads,
        metrics=system.metrics,
        new_shared_loads=Singleflight,
        deadline=PageDeadline(settings.deadline),
        cache_megabytes=settings.cache,
        max_lookup_wait=settings.deadline,
        observers=observers,
        renderer=renderer,
        renderer_id=keys.derive(f"pages of {installed_version()}"),
    )


def _hub(
    system: System, reads: ReadPorts, threads: Threads, observers: Sequence[AnswerObserver], pause: Pause
) -> LiveHub:
    ports = system.ports
    return LiveHub(
        inbox=build_uncached_inbox(reads, observers),
        bus=reads.live,
        bursts=ThreadedBursts(bursts=ports.recent_bursts, threads=threads),
        metrics=system.metrics,
        clock=ports.clock,
        pause=pause,
        max_streams=system.settings.streams,
        name=ports.nonces.new(),
    )
