"""Addresses of several hosts, which Python's own splitting refuses where one in brackets isn't the first."""

import re
from urllib.parse import SplitResult, urlsplit

_PLACES = re.compile(r"([^/?#]*//)([^/?#]*)(.*)", re.DOTALL)


def split(url: str) -> SplitResult:
    """As `urlsplit`, whatever the hosts are. Raises ValueError."""
    if (found := _PLACES.fullmatch(url)) is None:
        return urlsplit(url)
    before, hosts, behind = found.groups()
    return urlsplit(f"{before}host{behind}")._replace(netloc=hosts)
