"""Who rings which phones: by the credentials that are set, or a fake of this machine, the same in both profiles."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import random

from notifier.adapters.http2 import Http2Transport, Limits, addresses
from notifier.adapters.push import AccessTokens, Apns, AppleKey, Fcm, ProviderTokens, ServiceAccount, development
from notifier.adapters.push.apns import ORIGINS
from notifier.adapters.push.fcm import ORIGIN
from notifier.adapters.push.late import Late, Make
from notifier.adapters.push.rerouted import Rerouted
from notifier.adapters.push.unconfigured import Unconfigured
from notifier.adapters.push.webpush import Vapid, WebPush, guarded
from notifier.config import Push, Settings, variable
from notifier.domain.device import Environment, Platform
from notifier.domain.endpoint import PushServices
from notifier.domain.errors import BadSetting
from notifier.ports.clock import Clock
from notifier.ports.providers import Provider

CONNECTIONS: Mapping[Platform, Limits] = {
    # Of one process. Streams are many there, and more connections are opened only where posts wait for them.
    Platform.APNS: Limits(connections=6),
    # Google gives each 100 streams: at 50 ms eight are 16,000 a second, more than a core sends.
    Platform.FCM: Limits(connections=8),
    Platform.WEB: Limits(),
}
CREDENTIALS: Mapping[Platform, str] = {
    Platform.APNS: variable("push", "apns", "key"),
    Platform.FCM: variable("push", "fcm", "account"),
    Platform.WEB: variable("push", "web", "key"),
}


def providers(settings: Settings, clock: Clock, closing: ExitStack) -> Mapping[Platform, Provider]:
    """One for each platform. Reads no file and connects to nothing before the first alert."""
    found: dict[Platform, Provider] = {}
    for platform in Platform:
        make = _maker(settings.push, platform, clock)
        if isinstance(make, str):
            found[platform] = Unconfigured(reason=make)
        else:
            found[platform] = late = Late(make=make)
            closing.callback(late.close)
    return found


def credentials(push: Push, platform: Platform) -> str:
    """Reads those that are set, and says whose they are. Raises BadSetting."""
    match platform:
        case Platform.APNS:
            key = _apple(push)
            return f"the key {key.key_id} of the team {key.team_id}"
        case Platform.FCM:
            return f"{_google(push).email}, of the project {_google(push).project}"
        case Platform.WEB:
            return f"browsers subscribe with {_vapid(push).public}"


def require_credentials(push: Push) -> None:
    """Returns where all that are set can be used. Raises BadSetting."""
    for platform in Platform:
        if push.is_real(platform):
            credentials(push, platform)


def _maker(push: Push, platform: Platform, clock: Clock) -> Make | str:
    """Or why there is none."""
    own = push.of(platform)
    if push.is_faked(platform):
        if own.fake:
            return lambda opened: _faked(push, platform, clock, opened)
        runs = f"no fake of {platform} runs; `notifier up` starts one"
        return f"{runs}." if own.configured else f"no credentials: {CREDENTIALS[platform]} is not set, and {runs}."
    if not own.configured:
        return f"no credentials: {CREDENTIALS[platform]} is not set."
    return lambda opened: _real(push, platform, clock, opened)


def _real(push: Push, platform: Platform, clock: Clock, opened: ExitStack) -> Provider:
    match platform:
        case Platform.APNS:
            own = {Environment.PRODUCTION: push.apns.production, Environment.SANDBOX: push.apns.sandbox}
            origins = {one: own[one] or ORIGINS[one] for one in Environment}
            transport = _transport(platform, opened, clear=any(map(_is_clear, origins.values())))
            tokens, topics = ProviderTokens(_apple(push)), push.apns.named_topics
            return Apns(transport=transport, tokens=tokens, clock=clock, chance=random, topics=topics, origins=origins)
        case Platform.FCM:
            account, origin = _google(push), push.fcm.origin or ORIGIN
            clear = _is_clear(origin) or _is_clear(account.token_origin)
            transport = _transport(platform, opened, clear=clear)
            return Fcm(
                tokens=AccessTokens(account=account, transport=transport, clock=clock, chance=random), origin=origin
            )
        case Platform.WEB:
            services = push.web.services
            transport = _guarded(services, opened)
            return WebPush(transport=transport, vapid=_vapid(push), services=services, clock=clock, chance=random)


def _faked(push: Push, platform: Platform, clock: Clock, opened: ExitStack) -> Provider:
    """The very senders, with credentials that everybody knows."""
    fake = push.of(platform).fake
    match platform:
        case Platform.APNS:
            transport = _transport(platform, opened, clear=True)
            tokens, origins = ProviderTokens(development.apple()), dict.fromkeys(Environment, fake)
            return Apns(transport=transport, tokens=tokens, clock=clock, chance=random, origins=origins)
        case Platform.FCM:
            transport, account = _transport(platform, opened, clear=True), development.google(fake)
            return Fcm(
                tokens=AccessTokens(account=account, transport=transport, clock=clock, chance=random), origin=fake
            )
        case Platform.WEB:
            services = replace(push.web.services, loopback=True, production=False)
            rerouted = Rerouted(transport=_guarded(services, opened), origin=fake)
            return WebPush(transport=rerouted, vapid=development.web(), services=services, clock=clock, chance=random)


def _transport(platform: Platform, opened: ExitStack, *, clear: bool) -> Http2Transport:
    transport = Http2Transport(limits=CONNECTIONS[platform], clear=clear)
    opened.callback(transport.close)
    return transport


def _guarded(services: PushServices, opened: ExitStack) -> Http2Transport:
    resolver = guarded(addresses, services)
    transport = Http2Transport(limits=CONNECTIONS[Platform.WEB], clear=services.loopback, resolver=resolver)
    opened.callback(transport.close)
    return transport


def _is_clear(origin: str) -> bool:
    """Settings and files have such of this machine alone."""
    return origin.startswith("http:")


def _apple(push: Push) -> AppleKey:
    return AppleKey.read(_read(push.apns.key, "apns", "key"), key_id=push.apns.key_id, team_id=push.apns.team_id)


def _google(push: Push) -> ServiceAccount:
    return ServiceAccount.read(_read(push.fcm.account, "fcm", "account"))


def _vapid(push: Push) -> Vapid:
    return Vapid.read(_read(push.web.key, "web", "key"), subject=push.web.subject)


def _read(file: str, section: str, name: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except (OSError, ValueError) as error:
        words = error.strerror if isinstance(error, OSError) else "it has a zero byte"
        raise BadSetting(f"{variable('push', section, name)} can't be read: {file}: {words}.") from error
