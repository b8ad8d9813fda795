"""Push providers of both profiles, with real credentials or against local fakes."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from random import random

from notifier.adapters.http2 import Http2Limits, Http2Transport, resolve_addresses
from notifier.adapters.push import (
    AccessTokens,
    ApnsSender,
    AppleKey,
    FcmSender,
    ProviderTokens,
    ServiceAccount,
    public_test_credentials,
)
from notifier.adapters.push.apns.sender import ORIGINS
from notifier.adapters.push.fcm.sender import ORIGIN
from notifier.adapters.push.request_rounds_and_replies import DeviceReceipt
from notifier.adapters.push.webpush import MessageKeyPairs, Vapid, WebPushSender, guarded
from notifier.config import PushSettings, Settings, variable
from notifier.domain.errors import BadSetting
from notifier.domain.ids import Platform
from notifier.domain.push.alert import Alert
from notifier.domain.push.device import ApnsEnvironment, Device
from notifier.domain.push.device_validation import PushServices
from notifier.domain.push.receipt import ConfigError
from notifier.ports.leases_queues_throttles_clock import Clock
from notifier.ports.push import NoReply, Post, Provider, Reply, Transport

HTTP2_LIMITS: Mapping[Platform, Http2Limits] = {
    # Apple allows many streams per connection, so further connections are rarely opened.
    Platform.APNS: Http2Limits(max_connections=6),
    # Google allows 100 streams per connection. If an answer takes 50 ms, eight connections carry 16,000 alerts a
    # second, more than Google's default quota of 10,000.
    Platform.FCM: Http2Limits(max_connections=8),
    Platform.WEB: Http2Limits(),
}
"""Limits of the connections that one process opens to one platform's servers."""
CREDENTIAL_SETTINGS: Mapping[Platform, str] = {
    Platform.APNS: variable("push", "apns", "key"),
    Platform.FCM: variable("push", "fcm", "account"),
    Platform.WEB: variable("push", "web", "key"),
}
"""Environment variable with the path of each platform's credentials."""


def providers(
    settings: Settings, clock: Clock, resources: ExitStack, limits: Mapping[Platform, Http2Limits] = HTTP2_LIMITS
) -> Mapping[Platform, Provider]:
    """Return one provider per platform. Key files are read and connections opened at the first alert."""
    providers: dict[Platform, Provider] = {}
    for platform in Platform:
        factory = _ProviderFactory(push=settings.push, platform=platform, clock=clock, limits=limits[platform])
        if factory.problem:
            providers[platform] = UnconfiguredProvider(reason=factory.problem)
        else:
            providers[platform] = provider = LazyProvider(make=factory)
            resources.callback(provider.close)
    return providers


def configured_platforms(providers: Mapping[Platform, Provider]) -> Sequence[Platform]:
    return [platform for platform, provider in providers.items() if not isinstance(provider, UnconfiguredProvider)]


def describe_credentials(push: PushSettings, platform: Platform) -> str:
    """Read the platform's credentials, and return a text that identifies them. Raises BadSetting."""
    match platform:
        case Platform.APNS:
            key = _apple_key(push)
            return f"key {key.key_id} of team {key.team_id}"
        case Platform.FCM:
            return f"{_service_account(push).email}, project {_service_account(push).project}"
        case Platform.WEB:
            return f"key with the public half {_vapid(push).public_key}"


def require_credentials(push: PushSettings, platforms: Iterable[Platform] = Platform) -> None:
    """Raise BadSetting if configured credentials can't be read, or a needed `firebase-admin` is not installed."""
    for platform in platforms:
        if push.uses_real_provider(platform):
            describe_credentials(push, platform)
        if (
            platform is Platform.FCM
            and push.fcm.uses_google_library
            and (push.uses_real_provider(platform) or push.uses_fake(platform))
        ):
            _require_firebase_admin()


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProviderFactory:
    """Makes the provider of one platform, for real credentials or for a fake."""

    push: PushSettings
    platform: Platform
    clock: Clock
    limits: Http2Limits

    @property
    def problem(self) -> str:
        """Reason why the platform has no provider; empty if it has one."""
        platform_settings, setting = self.push.settings_for(self.platform), CREDENTIAL_SETTINGS[self.platform]
        if self.push.uses_real_provider(self.platform) or (
            self.push.uses_fake(self.platform) and platform_settings.fake
        ):
            return ""
        no_fake = f"no fake of {self.platform} is running; `notifier up` starts one"
        if platform_settings.is_configured:
            return f"{no_fake}."
        no_credentials = f"no credentials: {setting} is not set"
        return f"{no_credentials}, and {no_fake}." if self.push.uses_fake(self.platform) else f"{no_credentials}."

    def __call__(self, resources: ExitStack) -> Provider:
        """Raises BadSetting."""
        return self._real(resources) if self.push.uses_real_provider(self.platform) else self._faked(resources)

    def _real(self, resources: ExitStack) -> Provider:
        push = self.push
        match self.platform:
            case Platform.APNS:
                origins = {ApnsEnvironment.PRODUCTION: push.apns.production, ApnsEnvironment.SANDBOX: push.apns.sandbox}
                return self._apns(
                    _apple_key(push), {env: origins[env] or ORIGINS[env] for env in ApnsEnvironment}, resources
                )
            case Platform.FCM if push.fcm.uses_google_library:
                return self._fcm_by_firebase_admin(
                    _read_file(push.fcm.account, "fcm", "account"), push.fcm.origin or ORIGIN, resources
                )
            case Platform.FCM:
                return self._fcm(_service_account(push), push.fcm.origin or ORIGIN, resources)
            case Platform.WEB:
                services = push.web.services
                return self._web(_vapid(push), services, self._guarded_transport(services, resources), resources)

    def _faked(self, resources: ExitStack) -> Provider:
        """Create the sender of the real provider, but with the fake's address and public test credentials."""
        fake_origin = self.push.settings_for(self.platform).fake
        match self.platform:
            case Platform.APNS:
                # Don't check topics: the app of the demo's devices is not among the configured apps.
                return self._apns(
                    public_test_credentials.fake_apple_key(),
                    dict.fromkeys(ApnsEnvironment, fake_origin),
                    resources,
                    is_topic_checked=False,
                )
            case Platform.FCM if self.push.fcm.uses_google_library:
                return self._fcm_by_firebase_admin(
                    public_test_credentials.fake_service_account_file(fake_origin + public_test_credentials.TOKEN_PATH),
                    fake_origin,
                    resources,
                )
            case Platform.FCM:
                return self._fcm(public_test_credentials.fake_service_account(fake_origin), fake_origin, resources)
            case Platform.WEB:
                services = replace(self.push.web.services, allows_loopback=True, is_production=False)
                rerouted = ReroutingTransport(
                    transport=self._guarded_transport(services, resources), origin=fake_origin
                )
                return self._web(public_test_credentials.fake_vapid(), services, rerouted, resources)

    def _apns(
        self,
        key: AppleKey,
        origins: Mapping[ApnsEnvironment, str],
        resources: ExitStack,
        *,
        is_topic_checked: bool = True,
    ) -> Provider:
        return ApnsSender(
            transport=self._transport(*origins.values(), resources=resources),
            tokens=ProviderTokens(key),
            clock=self.clock,
            random=random,
            topics=self.push.apns.allowed_topics if is_topic_checked else frozenset(),
            origins=origins,
        )

    def _fcm(self, account: ServiceAccount, origin: str, resources: ExitStack) -> Provider:
        transport = self._transport(origin, account.token_origin, resources=resources)
        tokens = AccessTokens(account=account, transport=transport, clock=self.clock, random=random)
        return FcmSender(transport=tokens, origin=origin)

    def _fcm_by_firebase_admin(self, account: bytes, origin: str, resources: ExitStack) -> Provider:
        """Raises BadSetting."""
        _require_firebase_admin()
        from notifier.adapters.push.fcm.firebase_admin_transport import FirebaseAdminTransport

        transport = FirebaseAdminTransport.open(account, clock=self.clock, random=random, origin=origin)
        resources.callback(transport.close)
        return FcmSender(transport=transport, origin=origin)

    def _web(self, vapid: Vapid, services: PushServices, transport: Transport, resources: ExitStack) -> Provider:
        pairs = resources.enter_context(closing(MessageKeyPairs()))
        return WebPushSender(
            transport=transport, vapid=vapid, services=services, clock=self.clock, random=random, new_key_pair=pairs
        )

    def _transport(self, *origins: str, resources: ExitStack) -> Transport:
        """Create a transport. Origins with plain HTTP are allowed here: settings accept them for loopback only."""
        allow_plaintext = any(origin.startswith("http:") for origin in origins)
        return _close_with(Http2Transport(limits=self.limits, allow_plaintext=allow_plaintext), resources)

    def _guarded_transport(self, services: PushServices, resources: ExitStack) -> Transport:
        """Create a transport for endpoints that clients choose.

        It connects only to public addresses, and to this machine if `services.allows_loopback` allows it.
        """
        resolver = guarded(resolve_addresses, services)
        return _close_with(
            Http2Transport(limits=self.limits, allow_plaintext=services.allows_loopback, resolver=resolver), resources
        )


def _require_firebase_admin() -> None:
    if find_spec("firebase_admin") is None:
        name = variable("push", "fcm", "library")
        raise BadSetting(f"{name} needs an extra: pip install 'notifier[firebase-admin]'.")


def _close_with(transport: Http2Transport, resources: ExitStack) -> Transport:
    resources.callback(transport.close)
    return transport


def _apple_key(push: PushSettings) -> AppleKey:
    return AppleKey.read(_read_file(push.apns.key, "apns", "key"), key_id=push.apns.key_id, team_id=push.apns.team_id)


def _service_account(push: PushSettings) -> ServiceAccount:
    return ServiceAccount.read(_read_file(push.fcm.account, "fcm", "account"))


def _vapid(push: PushSettings) -> Vapid:
    return Vapid.read(_read_file(push.web.key, "web", "key"), subject=push.web.subject)


def _read_file(file: str, section: str, name: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it has a zero byte"
        raise BadSetting(f"{variable('push', section, name)} can't be read: {file}: {reason}.") from error


# Transport to a fake, and provider of an unconfigured platform.


@dataclass(frozen=True, slots=True, kw_only=True)
class ReroutingTransport:
    """Transport that sends all requests to the origin of a fake provider.

    The yielded requests have the fake's origin. Their authorization still names the real provider.
    """

    transport: Transport
    origin: str

    def exchange(self, posts: Iterable[Post]) -> Iterator[tuple[Post, Reply | NoReply]]:
        return self.transport.exchange(replace(post, origin=self.origin) for post in posts)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnconfiguredProvider:
    """Provider of a platform without credentials or a fake. It drops no device: each gets a ConfigError."""

    reason: str

    def send(self, alert: Alert, devices: Iterable[Device]) -> Iterator[DeviceReceipt]:
        receipt = ConfigError(reason=self.reason)
        return ((device, receipt) for device in devices)


# Provider created by the first send of a process, so that keys and connections are not shared across a fork.


@dataclass(slots=True, kw_only=True)
class LazyProvider:
    """Provider that creates the real provider on first use.

    If the creation fails, each device gets a ConfigError, and the next alert tries again. A corrected key file is thus
    read without a restart.
    """

    make: Callable[[ExitStack], Provider]
    """Makes the provider, and registers its resources on the stack. Raises BadSetting."""
    current_pid: Callable[[], int] = os.getpid
    _provider: Provider | None = None
    _created_by_pid: int = -1
    _resources: ExitStack = field(default_factory=ExitStack)

    def send(self, alert: Alert, devices: Iterable[Device]) -> Iterator[DeviceReceipt]:
        try:
            provider = self._own_provider()
        except BadSetting as error:
            receipt = ConfigError(reason=error.detail)
            yield from ((device, receipt) for device in devices)
            return
        yield from provider.send(alert, devices)

    def close(self) -> None:
        """Close the resources that this process opened. Those of its parent stay open."""
        if self._created_by_pid == self.current_pid():
            self._resources.close()
        self._provider = None

    def _own_provider(self) -> Provider:
        if self._provider is None or self._created_by_pid != self.current_pid():
            # After a fork, the parent still uses the copied resources. This process creates its own.
            resources = ExitStack()
            with resources:
                self._provider = self.make(resources)
                self._resources, self._created_by_pid = resources.pop_all(), self.current_pid()
        return self._provider
