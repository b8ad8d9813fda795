"""What is said of a broker that isn't there: nothing of TLS, of which nobody spoke."""

import pytest

from notifier.adapters.kafka import Access, check_access
from notifier.devkit.engines.engine import free_port
from notifier.domain.errors import LogUnavailable


@pytest.mark.parametrize("host", ["127.0.0.1", "nobody.invalid"])
@pytest.mark.parametrize("security", [{}, {"security_protocol": "SSL"}], ids=["plain", "tls"])
def test_of_a_broker_that_is_not_there_nothing_is_said_of_tls(host: str, security: dict[str, str]) -> None:
    server = f"{host}:{free_port()}"
    with pytest.raises(LogUnavailable, match=f"lets us in: {server}: ") as told:
        check_access(Access(servers=server, security=security))
    assert "TLS" not in str(told.value)
