"""The benchmarks' requests and responses: Apple's format, with an alert for each device."""

from collections.abc import Iterator

from notifier.ports.push import Post, Reply

BODY = (
    b'{"aps":{"alert":{"title":"@nova","body":"Ada and 412 others mentioned @nova: \\"this is the one\\""},'
    b'"thread-id":"nova","mutable-content":1},"burst":"mention:nova:1234"}'
)
COMMON = [
    ("authorization", "bearer " + "x" * 200),
    ("apns-topic", "app.example.notifier"),
    ("apns-push-type", "alert"),
    ("apns-priority", "10"),
    ("apns-expiration", "1767225600"),
    ("apns-collapse-id", "mention:nova:1234"),
]


def posts(origin: str, many: int, begin: int = 0) -> Iterator[Post]:
    """Yield requests with their own devices and ids."""
    for number in range(begin, begin + many):
        name = f"{number:064x}"
        apns_id = f"{name[32:40]}-{name[40:44]}-{name[44:48]}-{name[48:52]}-{name[52:]}"
        yield Post(origin=origin, path=f"/3/device/{name}", headers=[*COMMON, ("apns-id", apns_id)], body=BODY)


def accepts(post: Post) -> Reply:
    """Accept with the request's id, as Apple does."""
    return Reply(status=200, headers={"apns-id": post.headers[-1][1]})
