"""The health check of an unreachable Kafka broker does not blame TLS."""

import pytest

from notifier.adapters.kafka import Access, check_access
from notifier.devkit.engines.engine_process import free_port
from notifier.domain.errors import LogUnavailable


@pytest.mark.parametrize("host", ["127.0.0.1", "nobody.invalid"])
@pytest.mark.parametrize("security", [{}, {"security_protocol": "SSL"}], ids=["plain", "tls"])
def test_unreachable_broker_error_does_not_mention_tls(host: str, security: dict[str, str]) -> None:
    server = f"{host}:{free_port()}"
    with pytest.raises(LogUnavailable, match=f"{server}: ") as caught:
        check_access(Access(servers=server, security=security))
    assert "TLS" not in str(caught.value)
