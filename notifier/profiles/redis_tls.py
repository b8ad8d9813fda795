"""One address of a Redis with TLS for whoever reads it: the client's library and Celery's guess differently."""

import ssl
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from notifier.config.field import split
from notifier.domain.errors import BadSetting

LOOKS = {"required": "required", "CERT_REQUIRED": "required", "none": "none", "CERT_NONE": "none"}
"""How an address says whether the server's certificate is looked at, in the words of either library."""


def checked(url: str) -> str:
    """The address with everything said that one of them would guess. Raises BadSetting, without the address: it may
    hold a password."""
    parts = split(url)
    try:
        for host in parts.netloc.rpartition("@")[2].split(","):
            _ = urlsplit(f"//{host}").port
    except ValueError:
        # Not as its cause, for that has the wrong port, which is a piece of the password.
        raise BadSetting("A Redis URL has no port where one should be; in a password / is written %2F.") from None
    return url if parts.scheme != "rediss" else urlunsplit(parts._replace(query=_said(parts.query)))


def _said(query: str) -> str:
    """Celery's library looks at no certificate unless it is told to."""
    said = dict(parse_qsl(query, keep_blank_values=True))
    looks = said.get("ssl_cert_reqs", "required")
    if looks not in LOOKS:
        raise BadSetting(f"A Redis URL has ssl_cert_reqs={looks}; it must be required or none.")
    if ca := said.get("ssl_ca_certs"):
        try:
            ssl.create_default_context(cafile=ca)
        except (OSError, ssl.SSLError) as error:
            raise BadSetting(f"The certificate of Redis's authority, {ca}, can't be read: {error}") from error
    return urlencode({**said, "ssl_cert_reqs": LOOKS[looks]}, safe="/")
