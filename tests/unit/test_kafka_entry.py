"""What is said of a broker that isn't there: nothing of TLS, of which nobody spoke."""

import pytest

from notifier.adapters.kafka import Access, knock
from notifier.domain.errors import LogUnavailable
from services.engine import free_port


@pytest.mark.parametrize("server", [f"127.0.0.1:{free_port()}", "nobody.invalid:9092"])
@pytest.mark.parametrize("security", [{}, {"security_protocol": "SSL"}], ids=["plain", "tls"])
def test_of_a_broker_that_is_not_there_nothing_is_said_of_tls(server: str, security: dict[str, str]) -> None:
    with pytest.raises(LogUnavailable, match=f"lets us in: {server}: ") as told:
        knock(Access(servers=server, security=security))
    assert "TLS" not in str(told.value)
