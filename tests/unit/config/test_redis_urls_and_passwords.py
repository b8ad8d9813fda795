"""Redis URLs with TLS: certificates are checked, and no output shows a password."""

import pytest

from notifier.adapters import kafka
from notifier.config import Settings, without_password
from notifier.domain.errors import BadSetting
from notifier.profiles.redis_urls_and_task_queue import checked_redis_url


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://:pw@one:6379/3", "redis://:pw@one:6379/3"),
        ("unix:///run/redis.sock?db=1", "unix:///run/redis.sock?db=1"),
        ("rediss://u:p%2Fw@one:6379/3", "rediss://u:p%2Fw@one:6379/3?ssl_cert_reqs=required"),
        ("rediss://one/0?ssl_cert_reqs=CERT_REQUIRED", "rediss://one/0?ssl_cert_reqs=required"),
        ("rediss://one/0?ssl_cert_reqs=none", "rediss://one/0?ssl_cert_reqs=none"),
    ],
)
def test_certificate_requirement_is_explicit(url: str, expected: str) -> None:
    assert checked_redis_url(url) == expected
    assert checked_redis_url(expected) == expected


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("rediss://one/0?ssl_cert_reqs=perhaps", "must be required or none"),
        ("rediss://one/0?ssl_ca_certs=/nowhere/ca.pem", "/nowhere/ca.pem, can't be read"),
        ("redis://:hu/sh@one:6379/0", "%2F"),
    ],
)
def test_unusable_url_is_refused_without_showing_its_password(url: str, message: str) -> None:
    with pytest.raises(BadSetting, match=message) as caught:
        checked_redis_url(url)
    assert "hu" not in repr(caught.value)
    assert caught.value.__cause__ is None or "hu" not in repr(caught.value.__cause__)


def test_password_is_hidden_before_the_host_and_in_options() -> None:
    shown = without_password("rediss://u:hush@one/0?password=hush&ssl_password=hush&ssl_cert_reqs=none")
    assert shown == "rediss://…@one/0?password=…&ssl_password=…&ssl_cert_reqs=none"


def test_settings_and_client_options_print_no_password() -> None:
    environment = {f"NOTIFIER_{name}_PASSWORD": "hush" for name in ("KAFKA", "CASSANDRA")}
    environment |= {"NOTIFIER_REDIS_URL": "redis://:hush@one", "NOTIFIER_SECRET": "hush" * 8}
    assert "hush" not in repr(Settings.read(environment))
    assert "hush" not in repr(kafka.security(user="u", password="hush", mechanism="PLAIN", ca=""))


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://me:pw@a:26379,b:26379/name/0",
        "redis+cluster://a:6379,b:6379,[::1]:6379",
        "amqp://u:pw@h:5672,h2:5673/v",
    ],
)
def test_each_of_several_hosts_may_have_a_port(url: str) -> None:
    assert checked_redis_url(url) == url
