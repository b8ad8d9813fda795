"""The peers: their scripts, users per round, and by how much ours must be faster."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    name: str
    place: str
    """FILE:NAME in the folder `inside`."""
    environment: str
    """The name of its pins."""
    people: int
    """A sample of the audience that takes a second or two. A peer that reaches users one by one has the same rate for
    more of them."""
    quick_people: int
    limit: float
    limits_at: tuple[tuple[str, float], ...] = ()
    """Limits of single densities, in addition to that of the worse one."""

    def size(self, *, quick: bool) -> int:
        return self.quick_people if quick else self.people

    @property
    def figure(self) -> str:
        return f"peer_ratio{{{self.name}}}"

    def figure_at(self, density: str) -> str:
        return f"peer_ratio_at{{{self.name},{density}}}"

    def limit_at(self, density: str) -> float | None:
        return dict(self.limits_at).get(density)


PEERS = (
    Peer(
        name="stream_framework_notification",
        place="stream_framework_feeds:notification",
        environment="stream_framework",
        people=6_000,
        quick_people=2_000,
        limit=100.0,
        limits_at=(("1%", 70.0),),
    ),
    Peer(
        name="stream_framework_flat",
        place="stream_framework_feeds:flat",
        environment="stream_framework",
        people=25_000,
        quick_people=8_000,
        limit=30.0,
    ),
    Peer(
        name="pipelined_zadd",
        place="pipelined_zadd:PipelinedZadd",
        environment="redis",
        people=150_000,
        quick_people=60_000,
        limit=5.0,
        limits_at=(("1%", 1.0),),
    ),
    Peer(
        name="celery_per_follower",
        place="celery_per_follower:CeleryPerFollower",
        environment="celery",
        people=1_500,
        quick_people=600,
        limit=500.0,
    ),
)
