"""Push providers of both profiles, with real credentials or against local fakes."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from random import random

from notifier.adapters.http2 import Http2Limits, Http2Transport, addresses
from notifier.adapters.push import AccessTokens, ApnsSender, AppleKey, FcmSender, ProviderTokens, ServiceAccount
from notifier.adapters.push import fakes as development
from notifier.adapters.push.apns.sender import ORIGINS
from notifier.adapters.push.fakes import LazyProvider, ReroutingTransport, UnconfiguredProvider
from notifier.adapters.push.fcm.sender import ORIGIN
from notifier.adapters.push.webpush import MessageKeyPairs, Vapid, WebPushSender, guarded
from notifier.config import PushSettings, Settings, variable
from notifier.domain.errors import BadSetting
from notifier.domain.ids import Platform
from notifier.domain.push.device import ApnsEnvironment
from notifier.domain.push.device_address import PushServices
from notifier.ports.coordination import Clock
from notifier.ports.push import Provider, Transport

CONNECTIONS: Mapping[Platform, Http2Limits] = {
    # Limits of one process. Apple allows many streams; another connection is opened only if requests wait for one.
    Platform.APNS: Http2Limits(connections=6),
    # Google allows 100 streams per connection. At 50 ms eight connections carry 16,000 alerts a second, more than one
    # core sends.
    Platform.FCM: Http2Limits(connections=8),
    Platform.WEB: Http2Limits(),
}
CREDENTIALS: Mapping[Platform, str] = {
    Platform.APNS: variable("push", "apns", "key"),
    Platform.FCM: variable("push", "fcm", "account"),
    Platform.WEB: variable("push", "web", "key"),
}


def providers(
    settings: Settings, clock: Clock, closing: ExitStack, limits: Mapping[Platform, Http2Limits] = CONNECTIONS
) -> Mapping[Platform, Provider]:
    """Return one provider per platform. Files are read and connections opened at the first alert."""
    providers: dict[Platform, Provider] = {}
    for platform in Platform:
        factory = _ProviderFactory(push=settings.push, platform=platform, clock=clock, limits=limits[platform])
        if factory.problem:
            providers[platform] = UnconfiguredProvider(reason=factory.problem)
        else:
            providers[platform] = late = LazyProvider(make=factory)
            closing.callback(late.close)
    return providers


def configured_platforms(providers: Mapping[Platform, Provider]) -> Sequence[Platform]:
    """Return the platforms with a configured provider."""
    return [platform for platform, provider in providers.items() if not isinstance(provider, UnconfiguredProvider)]


def credentials(push: PushSettings, platform: Platform) -> str:
    """Read the platform's credentials and return a description of their owner. Raises BadSetting."""
    match platform:
        case Platform.APNS:
            key = _apple(push)
            return f"key {key.key_id} of team {key.team_id}"
        case Platform.FCM:
            return f"{_google(push).email}, project {_google(push).project}"
        case Platform.WEB:
            return f"key with the public half {_vapid(push).public}"


def require_credentials(push: PushSettings, platforms: Iterable[Platform] = Platform) -> None:
    """Check that all configured credentials are readable and that the configured library is installed.

    Raises BadSetting.
    """
    for platform in platforms:
        if push.is_real(platform):
            credentials(push, platform)
        if (
            platform is Platform.FCM
            and push.fcm.uses_google_library
            and (push.is_real(platform) or push.is_faked(platform))
        ):
            _require_library()


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProviderFactory:
    """Factory of one platform's provider."""

    push: PushSettings
    platform: Platform
    clock: Clock
    limits: Http2Limits

    @property
    def problem(self) -> str:
        """Reason why the platform has no provider; empty if it has one."""
        own, setting = self.push.settings_for(self.platform), CREDENTIALS[self.platform]
        if self.push.is_real(self.platform) or (self.push.is_faked(self.platform) and own.fake):
            return ""
        runs = f"no fake of {self.platform} is running; `notifier up` starts one"
        if own.is_configured:
            return f"{runs}."
        missing = f"no credentials: {setting} is not set"
        return f"{missing}, and {runs}." if self.push.is_faked(self.platform) else f"{missing}."

    def __call__(self, opened: ExitStack) -> Provider:
        """Raises BadSetting."""
        return self._real(opened) if self.push.is_real(self.platform) else self._faked(opened)

    def _real(self, opened: ExitStack) -> Provider:
        push = self.push
        match self.platform:
            case Platform.APNS:
                own = {ApnsEnvironment.PRODUCTION: push.apns.production, ApnsEnvironment.SANDBOX: push.apns.sandbox}
                return self._apns(_apple(push), {env: own[env] or ORIGINS[env] for env in ApnsEnvironment}, opened)
            case Platform.FCM if push.fcm.uses_google_library:
                return self._by_google(_read(push.fcm.account, "fcm", "account"), push.fcm.origin or ORIGIN, opened)
            case Platform.FCM:
                return self._fcm(_google(push), push.fcm.origin or ORIGIN, opened)
            case Platform.WEB:
                services = push.web.services
                return self._web(_vapid(push), services, self._guarded(services, opened), opened)

    def _faked(self, opened: ExitStack) -> Provider:
        """Create the same sender as for the real provider, but with public test credentials."""
        fake = self.push.settings_for(self.platform).fake
        match self.platform:
            case Platform.APNS:
                # Ignore the configured topics: the app of the test devices is not among them.
                return self._apns(
                    development.fake_apple_key(), dict.fromkeys(ApnsEnvironment, fake), opened, named=False
                )
            case Platform.FCM if self.push.fcm.uses_google_library:
                return self._by_google(
                    development.fake_service_account_file(fake + development.TOKEN_PATH), fake, opened
                )
            case Platform.FCM:
                return self._fcm(development.fake_service_account(fake), fake, opened)
            case Platform.WEB:
                services = replace(self.push.web.services, loopback=True, production=False)
                near = ReroutingTransport(transport=self._guarded(services, opened), origin=fake)
                return self._web(development.fake_vapid(), services, near, opened)

    def _apns(
        self, key: AppleKey, origins: Mapping[ApnsEnvironment, str], opened: ExitStack, *, named: bool = True
    ) -> Provider:
        return ApnsSender(
            transport=self._transport(*origins.values(), opened=opened),
            tokens=ProviderTokens(key),
            clock=self.clock,
            chance=random,
            topics=self.push.apns.allowed_topics if named else frozenset(),
            origins=origins,
        )

    def _fcm(self, account: ServiceAccount, origin: str, opened: ExitStack) -> Provider:
        transport = self._transport(origin, account.token_origin, opened=opened)
        tokens = AccessTokens(account=account, transport=transport, clock=self.clock, chance=random)
        return FcmSender(tokens=tokens, origin=origin)

    def _by_google(self, account: bytes, origin: str, opened: ExitStack) -> Provider:
        """Raises BadSetting."""
        _require_library()
        from notifier.adapters.push.fcm.firebase_admin_transport import FirebaseAdminTransport

        tokens = FirebaseAdminTransport.open(account, clock=self.clock, chance=random, origin=origin)
        opened.callback(tokens.close)
        return FcmSender(tokens=tokens, origin=origin)

    def _web(self, vapid: Vapid, services: PushServices, transport: Transport, opened: ExitStack) -> Provider:
        pairs = opened.enter_context(closing(MessageKeyPairs()))
        return WebPushSender(
            transport=transport, vapid=vapid, services=services, clock=self.clock, chance=random, pair=pairs
        )

    def _transport(self, *origins: str, opened: ExitStack) -> Transport:
        """Create a transport. It uses plain HTTP if an origin does, which is valid for loopback hosts only."""
        clear = any(origin.startswith("http:") for origin in origins)
        return _close_with(Http2Transport(limits=self.limits, clear=clear), opened)

    def _guarded(self, services: PushServices, opened: ExitStack) -> Transport:
        resolver = guarded(addresses, services)
        return _close_with(Http2Transport(limits=self.limits, clear=services.loopback, resolver=resolver), opened)


def _require_library() -> None:
    """Check that the optional `firebase-admin` package is installed. Raises BadSetting."""
    if find_spec("firebase_admin") is None:
        name = variable("push", "fcm", "library")
        raise BadSetting(f"{name} needs an extra: pip install 'notifier[firebase-admin]'.")


def _close_with(transport: Http2Transport, opened: ExitStack) -> Transport:
    opened.callback(transport.close)
    return transport


def _apple(push: PushSettings) -> AppleKey:
    return AppleKey.read(_read(push.apns.key, "apns", "key"), key_id=push.apns.key_id, team_id=push.apns.team_id)


def _google(push: PushSettings) -> ServiceAccount:
    return ServiceAccount.read(_read(push.fcm.account, "fcm", "account"))


def _vapid(push: PushSettings) -> Vapid:
    return Vapid.read(_read(push.web.key, "web", "key"), subject=push.web.subject)


def _read(file: str, section: str, name: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it has a zero byte"
        raise BadSetting(f"{variable('push', section, name)} can't be read: {file}: {reason}.") from error
