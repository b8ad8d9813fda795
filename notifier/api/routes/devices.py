"""`/v1/devices`: register, list and unregister the devices that receive a user's alerts."""

import re
from datetime import datetime
from typing import assert_never
from urllib.parse import urlsplit

import msgspec
from litestar import HttpMethod, Response, delete, get, route
from litestar.params import FromPath, JSONBody

from notifier.api.auth.guards import require_json
from notifier.api.container import UserRequest, WiredContainer
from notifier.api.problems import problem_responses
from notifier.api.response_parts import PRIVATE_HEADERS
from notifier.config import PushSettings
from notifier.domain.errors import BadDevice, NotFound
from notifier.domain.ids import Platform
from notifier.domain.push import device_validation
from notifier.domain.push.device import (
    Address,
    AppleToken,
    Device,
    DeviceId,
    FirebaseInstallation,
    FirebaseToken,
    WebSubscription,
)
from notifier.domain.users.quiet_hours import UTC_ZONE

MAX_BODY_BYTES = 8 * 1024
"""Maximum bytes of a registration: enough for the longest endpoint or token."""
SHOWN_CHARACTERS = 4
"""Last characters of an address that are shown: enough to recognize the device, too few to send to it."""

_DEVICE_ID = re.compile(r"[0-9a-f]{32}")


class KeysBody(msgspec.Struct, kw_only=True):
    """Encryption keys of a web push subscription."""

    p256dh: str
    auth: str


class SubscriptionBody(msgspec.Struct, kw_only=True):
    """A web push subscription, in the format of `PushSubscription.toJSON()`."""

    endpoint: str
    keys: KeysBody


class Registration(msgspec.Struct, kw_only=True):
    """A device to register.

    `platform` selects the other fields: `apns` takes `token` and `topic`, `fcm` takes `token` or `fid`, and `web` takes
    `subscription`. `environment` is that of APNs. With `fid`, `replaces` is the earlier token of the same device: that
    token's registration is removed.
    """

    platform: str
    token: str | None = None
    topic: str | None = None
    environment: str = "production"
    fid: str | None = None
    replaces: str | None = None
    subscription: SubscriptionBody | None = None
    locale: str = "en"
    time_zone: str = UTC_ZONE


class DeviceBody(msgspec.Struct, kw_only=True):
    """A registered device.

    `app` is the topic for `apns`, the origin of the endpoint for `web`, and null for `fcm`. `last_four` contains the
    last four characters of the token, the fid or the endpoint.
    """

    id: str
    platform: str
    app: str | None
    locale: str
    time_zone: str
    last_four: str
    registered_at: datetime


class DevicesBody(msgspec.Struct, kw_only=True):
    """The devices of a user."""

    devices: list[DeviceBody]


@get("/", responses=problem_responses(401, 403, 404, 429, 503))
async def devices(request: UserRequest, container: WiredContainer) -> Response[DevicesBody]:
    """List the user's devices, most recently registered first."""
    registered = await container.device_requests(request.user, lambda registry, member: registry.list_devices(member))
    return Response(DevicesBody(devices=[device_body(device) for device in registered]), headers=PRIVATE_HEADERS)


@route(
    "/",
    http_method=[HttpMethod.PUT, HttpMethod.POST],
    guards=[require_json],
    status_code=200,
    request_max_body_size=MAX_BODY_BYTES,
    responses=problem_responses(400, 401, 403, 404, 413, 415, 429, 503, 507),
)
async def register(
    request: UserRequest, container: WiredContainer, data: JSONBody[Registration]
) -> Response[DeviceBody]:
    """Register a device, or refresh its registration. Apps should call this at each start.

    The device then belongs to this user alone: an earlier registration by another user ends.
    """
    address, replaced_token = address_of(data, container.system.settings.push), _replaced_token(data)
    locale, zone = device_validation.locale(data.locale), device_validation.time_zone(data.time_zone)
    device = await container.device_requests(
        request.user,
        lambda registry, member: registry.register(
            member, address, locale=locale, time_zone=zone, replaces=replaced_token
        ),
        create_member=True,
    )
    return Response(device_body(device), headers=PRIVATE_HEADERS)


@delete("/{id:str}", responses=problem_responses(400, 401, 403, 404, 429, 503, 507))
async def unregister(id: FromPath[str], request: UserRequest, container: WiredContainer) -> None:
    """Unregister a device. Does nothing if the user has no device with this id. A malformed id is an error."""
    if not _DEVICE_ID.fullmatch(id):
        raise NotFound("A device id has 32 hexadecimal digits.")
    await container.device_requests(request.user, lambda registry, member: registry.unregister(member, DeviceId(id)))


def address_of(data: Registration, push: PushSettings) -> Address:
    """Return the address of the device. Raises BadDevice, or ForeignDevice if this service may not send there."""
    match data.platform, data.token, data.fid, data.subscription:
        case Platform.APNS, str(token), None, None if data.topic is not None:
            return device_validation.apple_token(token, data.topic, data.environment, topics=push.apns.allowed_topics)
        case Platform.FCM, str(token), None, None:
            return device_validation.firebase_token(token)
        case Platform.FCM, None, str(fid), None:
            return device_validation.firebase_installation(fid)
        case Platform.WEB, None, None, SubscriptionBody(endpoint=endpoint, keys=keys):
            return device_validation.web_subscription(endpoint, keys.p256dh, keys.auth, services=push.web.services)
        case _:
            raise _field_error(data.platform)


def _replaced_token(data: Registration) -> FirebaseToken | None:
    if data.replaces is None:
        return None
    if data.fid is None:
        raise BadDevice("Only a fid can replace a token.")
    return device_validation.firebase_token(data.replaces)


def _field_error(platform: str) -> BadDevice:
    if platform not in set(Platform):
        return BadDevice(f"Unknown platform: {platform[:40]!r}; use one of {', '.join(Platform)}.")
    required_address = {
        Platform.APNS: "a token and a topic",
        Platform.FCM: "a token or a fid",
        Platform.WEB: "a subscription",
    }
    return BadDevice(f"A device of {platform} needs {required_address[Platform(platform)]}, and no other address.")


def device_body(device: Device) -> DeviceBody:
    app, address_text = shown_app_and_address(device.address)
    return DeviceBody(
        id=device.id,
        platform=str(device.platform),
        app=app,
        locale=device.locale,
        time_zone=device.time_zone,
        last_four=address_text[-SHOWN_CHARACTERS:],
        registered_at=device.registered_at,
    )


def shown_app_and_address(address: Address) -> tuple[str | None, str]:
    """Return the app that is shown for an address, and the text whose last characters are shown."""
    match address:
        case AppleToken(token=token, topic=topic):
            return topic, token
        case FirebaseToken(token=token):
            return None, token
        case FirebaseInstallation(fid=fid):
            return None, fid
        case WebSubscription(endpoint=endpoint):
            parts = urlsplit(endpoint)
            return f"{parts.scheme}://{parts.netloc}", endpoint
        case _:
            assert_never(address)
