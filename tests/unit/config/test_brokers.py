"""The brokers of the pools: their own, or databases of a Redis that Celery can work on."""

import pytest

from notifier.config import Settings
from notifier.domain.delivery.slice import Pool
from notifier.domain.errors import BadSetting
from notifier.profiles.celery_brokers import brokers

OWN = {f"NOTIFIER_BROKERS_{pool.replace('.', '_').upper()}": f"amqp://rabbit/{pool}" for pool in Pool}
SEVERAL = ["redis+sentinel://a:26379,b:26379/cache/0", "rediss+cluster://:secret@a:6379,b", "unix:///run/redis.sock"]


def test_a_pool_without_a_broker_has_a_database_of_the_redis() -> None:
    settings = Settings.read({"NOTIFIER_BROKERS_P0": "amqp://rabbit//"})
    found = brokers(settings, "redis://cache/0")
    assert found[Pool.P0] == "amqp://rabbit//"
    assert len({found[pool] for pool in Pool}) == len(Pool)
    assert all(found[pool].startswith("redis://cache/") for pool in Pool if pool is not Pool.P0)


@pytest.mark.parametrize("url", SEVERAL)
def test_a_redis_that_is_several_is_no_broker_and_the_remedy_is_said(url: str) -> None:
    assert Settings.read({"NOTIFIER_REDIS_URL": url}).redis_url == url
    with pytest.raises(BadSetting, match="NOTIFIER_BROKERS_PUSH_APNS") as refused:
        brokers(Settings.read({}), url)
    assert "secret" not in str(refused.value)
    settings = Settings.read(OWN)
    assert set(brokers(settings, url).values()) == {f"amqp://rabbit/{pool}" for pool in Pool}
