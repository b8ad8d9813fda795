"""Brokers of the pools: configured ones, or databases of one Redis server."""

import pytest

from notifier.config import Settings
from notifier.domain.delivery.slice_and_pool import Pool
from notifier.domain.errors import BadSetting
from notifier.profiles.redis_urls_and_task_queue import broker_urls

OWN = {f"NOTIFIER_BROKERS_{pool.replace('.', '_').upper()}": f"amqp://rabbit/{pool}" for pool in Pool}
UNUSABLE_REDIS_URLS = [
    "redis+sentinel://a:26379,b:26379/cache/0",
    "rediss+cluster://:secret@a:6379,b",
    "unix:///run/redis.sock",
]


def test_pool_without_a_broker_uses_a_redis_database() -> None:
    settings = Settings.read({"NOTIFIER_BROKERS_P0": "amqp://rabbit//"})
    urls = broker_urls(settings, "redis://cache/0")
    assert urls[Pool.P0] == "amqp://rabbit//"
    assert len({urls[pool] for pool in Pool}) == len(Pool)
    assert all(urls[pool].startswith("redis://cache/") for pool in Pool if pool is not Pool.P0)


@pytest.mark.parametrize("url", UNUSABLE_REDIS_URLS)
def test_unusable_redis_is_refused_as_broker_with_the_remedy(url: str) -> None:
    assert Settings.read({"NOTIFIER_REDIS_URL": url}).redis_url == url
    with pytest.raises(BadSetting, match="NOTIFIER_BROKERS_PUSH_APNS") as refused:
        broker_urls(Settings.read({}), url)
    assert "secret" not in str(refused.value)
    settings = Settings.read(OWN)
    assert set(broker_urls(settings, url).values()) == {f"amqp://rabbit/{pool}" for pool in Pool}
