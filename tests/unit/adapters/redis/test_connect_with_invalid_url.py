"""Invalid Redis URLs are refused, and the error shows no password."""

from collections.abc import Callable

import pytest

from notifier.adapters.redis import connect, connect_async
from notifier.domain.errors import BadSetting


@pytest.mark.parametrize("make_client", [connect, connect_async])
@pytest.mark.parametrize("url", ["http://cache", "redis://me:pw/hush@cache:6379/0", "redis://cache?socket_timeout=x"])
def test_invalid_url_is_a_bad_setting(make_client: Callable[[str], object], url: str) -> None:
    with pytest.raises(BadSetting, match="The Redis URL is invalid") as caught:
        make_client(url)
    assert "pw" not in str(caught.value)
