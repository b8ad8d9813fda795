"""Whether the brokers let us in: asked once, because the library's clients try for ever and don't say why."""

import socket
import ssl
from contextlib import suppress
from typing import Any

from kafka.errors import KafkaConnectionError, KafkaError, SaslAuthenticationFailedError, UnsupportedSaslMechanismError
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.metadata import MetadataRequest

from notifier.adapters.kafka.config import Access
from notifier.domain.errors import Environment, LogUnavailable

ANSWERS_WITHIN = 2_000
"""Milliseconds of one broker."""
STRANGERS = (SaslAuthenticationFailedError, UnsupportedSaslMechanismError)


def require(access: Access) -> None:
    """Returns once a broker has let us in, and where one may do so later. Raises Environment where none ever will
    until somebody mends a setting: a wrong password, a certificate that isn't the authority's.
    """
    with suppress(LogUnavailable):  # an outage passes by itself: roles start during one, and answer what they can
        knock(access)


def knock(access: Access) -> tuple[int, ...]:
    """The version that a broker's protocol shows. Raises Environment as `require` does, else LogUnavailable."""
    error, hint = "", ""
    for server in access.servers.split(","):
        try:
            _reach(server, access.security.get("ssl_cafile"))
            return _let_in({**access.admin(), "bootstrap_servers": [server]})
        except STRANGERS as refused:
            raise Environment(f"Kafka at {server} refuses the user, the password or the mechanism.") from refused
        except ssl.SSLCertVerificationError as wrong:
            raise Environment(f"Kafka at {server} shows a certificate that isn't our authority's.") from wrong
        except (KafkaError, ssl.SSLError) as failed:
            error, hint = str(failed), " Perhaps TLS is spoken on one side alone."
        except OSError as failed:
            error, hint = f"{server}: {failed.strerror or failed}", ""
    raise LogUnavailable(f"No broker of {access.servers} lets us in: {error}.{hint}")


def _reach(server: str, ca: str | None) -> None:
    """Beside the library, which says of nobody there what it says of TLS on one side alone, leaves the socket of a
    handshake that fails to the collector, and keeps of its error the words alone."""
    host, _, port = server.rpartition(":")
    place = host.strip("[]"), int(port)
    with socket.create_connection(place, timeout=ANSWERS_WITHIN / 1_000) as plain:
        if ca is not None:
            ssl.create_default_context(cafile=ca).wrap_socket(plain, server_hostname=place[0]).close()


def _let_in(options: dict[str, Any]) -> tuple[int, ...]:
    """Twice, for a broker that is just ending looks like one that cuts strangers off."""
    try:
        return _asked(options)
    except SaslAuthenticationFailedError:
        return _asked(options)


def _asked(options: dict[str, Any]) -> tuple[int, ...]:
    net = NetworkSelector(**options)
    manager = KafkaConnectionManager(net, **options)
    [broker] = manager.cluster.bootstrap_brokers()
    try:
        net.run(_opened, manager, broker.node_id)
        return tuple(manager.broker_version)
    except KafkaConnectionError as error:
        # Its last words come together with the end of the connection, and then the library reads only that.
        if _greeted(manager, broker.node_id):
            raise SaslAuthenticationFailedError("cut off") from error
        raise
    finally:
        manager.close()
        net.drain()
        net.close()


def _greeted(manager: Any, node: object) -> bool:
    opening = manager._conns.get(node)
    return opening is not None and opening.broker_version_data is not None


async def _opened(manager: Any, node: object) -> None:
    """A broker greets strangers, too; what it has is for those whom it knows."""
    opening = manager.get_connection(node, timeout_ms=ANSWERS_WITHIN, pop_on_close=False, refresh_metadata_on_err=False)
    await manager.wait_for(opening.init_future, ANSWERS_WITHIN)
    about = MetadataRequest(topics=MetadataRequest.NO_TOPICS)
    await manager.wait_for(opening.send_request(about), ANSWERS_WITHIN)
