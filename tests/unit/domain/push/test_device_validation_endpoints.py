"""Web Push endpoints: those that browsers write are accepted, hostile ones refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notifier.domain.errors import BadSetting
from notifier.domain.push.device_validation import KNOWN_HOSTS, MAX_ENDPOINT_LENGTH, Endpoint, PushServices

SERVICES = PushServices()
DEVELOPMENT = PushServices(allows_loopback=True, is_production=False)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://fcm.googleapis.com/fcm/send/c1KrmpTuRm8:APA91bHPRgkFL-a_Eo", "fcm.googleapis.com"),
        ("https://fcm.googleapis.com/wp/dHWZ9LFNPsc:APA91bG", "fcm.googleapis.com"),
        ("https://web.push.apple.com/QGuQyavXutnMH4p-mo2KqR", "web.push.apple.com"),
        ("https://updates.push.services.mozilla.com/wpush/v2/gAAAAABk_=", "updates.push.services.mozilla.com"),
        ("https://wns2-par02p.notify.windows.com/w/?token=BQYAAAC%2fKLk%3d", "wns2-par02p.notify.windows.com"),
    ],
)
def test_browser_endpoint_is_accepted_unchanged(url: str, host: str) -> None:
    endpoint = SERVICES.endpoint(url)
    assert (endpoint.host, endpoint.port, endpoint.scheme) == (host, 443, "https")
    assert endpoint.origin + endpoint.path == url
    assert endpoint.origin_with_port == f"https://{host}:443"


def test_default_port_is_accepted_and_left_out_of_the_origin() -> None:
    endpoint = SERVICES.endpoint("https://fcm.googleapis.com:443/wp/x")
    assert endpoint == SERVICES.endpoint("https://fcm.googleapis.com/wp/x")
    assert endpoint.origin == "https://fcm.googleapis.com"


HOST = "fcm.googleapis.com"
SENTENCES = (
    "it must be an https:// URL as browsers write it, of a host on port 443",
    "its host is not a known push service",
)
HOSTILE = [
    # other schemes, and none
    f"http://{HOST}/x", f"ftp://{HOST}/x", f"//{HOST}/x", f"{HOST}/x", "", "https://", "https:///x", f"https:/{HOST}/x",
    "file:///etc/passwd", "gopher://127.0.0.1:6379/_FLUSHALL", f"https:\\\\{HOST}\\x",
    # other ports
    f"https://{HOST}:80/x", f"https://{HOST}:8443/x", f"https://{HOST}:/x", f"https://{HOST}:0443/x",
    f"https://{HOST}:443443/x", f"https://{HOST}:-443/x",
    # user names, and URLs that parsers read differently
    f"https://user@{HOST}/x", f"https://user:pass@{HOST}/x", f"https://{HOST}@127.0.0.1/x", f"https://{HOST}:443@evil/x",
    f"https://127.0.0.1\\@{HOST}/x", f"https://127.0.0.1#@{HOST}/x", f"https://127.0.0.1?@{HOST}/x",
    f"https://127.0.0.1;{HOST}/x", f"https://127.0.0.1,{HOST}/x", f"https://127.0.0.1 {HOST}/x",
    f"https://{HOST}#x", f"https://{HOST}/x#fragment", f"https://{HOST}\\x", f"https://{HOST}/x\\y", f"https://{HOST}",
    f"https://{HOST}?x", f"https://{HOST}%2f@127.0.0.1/x", f"https://{HOST}%00.evil.com/x",
    # spaces, line breaks, other alphabets
    f" https://{HOST}/x", f"https://{HOST}/x ", f"https://{HOST}/a b", f"https://{HOST}/x\r\nhost: evil", f"https://{HOST}\t/x",
    f"https://{HOST}/x\n", f"ht\ntps://{HOST}/x", f"https://{HOST}/\x00", f"https://{HOST}/é", "https://fcm.googleapis。com/x",
    "https://ｆcm.googleapis.com/x", "https://fcm.googleapıs.com/x", "https://fcm.googleapis.com\u200b/x", "https://⑯⑨。②⑤④/x",
    # forms that browsers do not write
    f"HTTPS://{HOST}/x", "https://FCM.googleapis.com/x", "https://fcm.GoogleAPIs.com/x", f"https://{HOST}./x",
    f"https://.{HOST}/x", "https://fcm..googleapis.com/x", "https://fcm.googleapis.com../x",
    # hosts of others
    "https://evil.com/x", f"https://{HOST}.evil.com/x", f"https://evil{HOST}/x", f"https://x.{HOST}/x",
    "https://googleapis.com/x", "https://push.apple.com/x", "https://evilpush.apple.com.evil/x", "https://notify.windows.com/x",
    "https://evilnotify.windows.com/x", "https://xn--fcm-googleapis-com.com/x", "https://xn--80ak6aa92e.com/x",
    "https://-.notify.windows.com/x", "https://a-.notify.windows.com/x", "https://a_b.notify.windows.com/x",
    # IP addresses in every notation
    "https://127.0.0.1/x", "https://127.1/x", "https://2130706433/x", "https://0x7f000001/x", "https://0x7f.0.0.1/x",
    "https://0177.0.0.1/x", "https://017700000001/x", "https://0/x", "https://[::1]/x", "https://[::ffff:127.0.0.1]/x",
    "https://[fe80::1%25eth0]/x", "https://169.254.169.254/latest/meta-data/", "https://10.0.0.1/x", "https://127.0.0.1.nip.io/x",
    # names of this machine and its neighbors
    "https://localhost/x", "https://localhost.localdomain/x", "https://metadata.google.internal/x", "https://cassandra/x",
]  # fmt: skip


@pytest.mark.parametrize("url", HOSTILE)
@pytest.mark.parametrize("services", [SERVICES, PushServices(hosts=("*.push.example.org", *KNOWN_HOSTS))])
def test_hostile_endpoint_is_refused_and_not_repeated_in_the_error(url: str, services: PushServices) -> None:
    with pytest.raises(ValueError, match=r"^it must be |^its host is not ") as refused:
        services.endpoint(url)
    assert str(refused.value) in SENTENCES


def test_overlong_endpoint_is_refused() -> None:
    url = f"https://{HOST}/"
    assert SERVICES.endpoint(url.ljust(MAX_ENDPOINT_LENGTH, "x")).host == HOST
    with pytest.raises(ValueError, match="2048"):
        SERVICES.endpoint(url.ljust(MAX_ENDPOINT_LENGTH + 1, "x"))


@given(st.text(), st.sampled_from(["", "https://", f"https://{HOST}", f"https://{HOST}/", f"https://x@{HOST}/"]))
def test_every_accepted_endpoint_is_at_a_push_service(text: str, prefix: str) -> None:
    try:
        endpoint = SERVICES.endpoint(prefix + text)
    except ValueError:
        return
    assert endpoint.host == HOST
    assert (endpoint.scheme, endpoint.port) == ("https", 443)
    assert endpoint.path.isascii()
    assert endpoint.path.isprintable()


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://127.0.0.1:8080/x", "http://127.0.0.1:8080"),
        ("http://localhost/x", "http://localhost:80"),
        ("https://localhost:9443/x", "https://localhost:9443"),
    ],
)
def test_loopback_endpoint_is_accepted_in_development_only(url: str, target: str) -> None:
    assert DEVELOPMENT.endpoint(url).origin_with_port == target
    with pytest.raises(ValueError, match="https://"):
        SERVICES.endpoint(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.2:80/x", "http://[::1]:80/x", "http://127.0.0.1:0/x", "http://127.0.0.1:65536/x", "http://127.1/x",
        "http://localhost.evil.com/x", "http://user@localhost/x", "http://localhost", "http://fcm.googleapis.com/x",
        "http://localhost:80/x\\y", "http://localhost:80/x#y", "http://10.0.0.1/x", "http://localhost:/x",
    ],
)  # fmt: skip
def test_development_accepts_no_other_hosts(url: str) -> None:
    with pytest.raises(ValueError, match=r"^it"):
        DEVELOPMENT.endpoint(url)


def test_production_refuses_the_development_setting() -> None:
    with pytest.raises(BadSetting, match="production"):
        PushServices(allows_loopback=True)


@pytest.mark.parametrize(
    "host",
    ["", "*", "*.com.", "*.", "com", "*.*.com", "fcm.*.com", "FCM.googleapis.com", "https://x.y", "x.y:443", "x.y/z",
     "localhost", "127.0.0.1", "10.0.0.1", "[::1]", " x.y", "x..y", "-x.y"],
)  # fmt: skip
def test_host_list_with_an_invalid_name_is_refused(host: str) -> None:
    with pytest.raises(BadSetting, match="not the name of a push service"):
        PushServices(hosts=(*KNOWN_HOSTS, host))


def test_host_list_can_be_replaced() -> None:
    services = PushServices(hosts=("push.example.org", "*.push.example.net"))
    assert services.endpoint("https://push.example.org/x").host == "push.example.org"
    assert services.endpoint("https://a.b.push.example.net/x") == Endpoint(
        scheme="https", host="a.b.push.example.net", port=443, path="/x"
    )
    with pytest.raises(ValueError, match="known"):
        services.endpoint("https://fcm.googleapis.com/x")
