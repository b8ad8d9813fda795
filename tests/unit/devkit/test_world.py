"""The fixture's world: bitmaps follow the formulas, and member sets agree with follows."""

import asyncio
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import blake2s
from urllib.parse import urlsplit

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from notifier.devkit.fake_providers.fake_devices import PUSH_SERVICE_ORIGIN, fixture_subscription, member_of
from notifier.devkit.fixture.sample_users_and_devices import LOCALES, device, platform
from notifier.devkit.fixture.world import ACTIVE_7D, ACTIVE_24H, ACTIVE_30D, Flags, Members, World, user
from notifier.devkit.fixture.world_bitmaps import WorldBitmaps
from notifier.devkit.fixture.world_loader_and_markers import Advance, WorldLoader, steps
from notifier.domain.audience.bitmap import SHARD_MEMBERS, Bits, count, from_flags, offsets
from notifier.domain.audience.tiers_and_member_sets import SetKind
from notifier.domain.ids import Member
from notifier.domain.push.device import (
    DEVICE_KEPT_FOR,
    AppleToken,
    FirebaseInstallation,
    FirebaseToken,
    WebSubscription,
)
from notifier.domain.push.device_validation import web_subscription
from tests.support.fakes.activity_member_sets_and_follows import MemoryActiveSets, MemoryFollows, MemoryMemberSets
from tests.support.fakes.clock_and_nonces import ManualClock
from tests.support.fakes.devices import MemoryDevices
from tests.support.fakes.preferences_and_user_blocks import MemorySubjectPreferences
from tests.support.fakes.user_directory_and_account_flags import MemoryDirectory
from tests.support.fakes.viewer_facts import MemoryPeople

SMALL = World(universe=300_000, followers=100_000, celebrities=8, seed=7)
NOON = datetime(2026, 1, 5, 12, 30, tzinfo=UTC)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    universe = draw(st.integers(1, 400_000))
    followers = draw(st.integers(1, universe))
    celebrities, seed = draw(st.integers(1, 20)), draw(st.integers(0, 999))
    return World(universe=universe, followers=followers, celebrities=celebrities, seed=seed)


def members_of(world: World, shard: int) -> Members:
    return np.arange(shard * SHARD_MEMBERS, min((shard + 1) * SHARD_MEMBERS, world.universe), dtype=np.int64)


def equals(bits: Bits, flags: Flags) -> bool:
    return bool((bits == from_flags(flags)).all())


@given(worlds(), st.data())
@settings(max_examples=40, deadline=None)
def test_bitmaps_equal_the_formulas(world: World, data: st.DataObject) -> None:
    shard = data.draw(st.integers(0, world.shards - 1))
    celebrity_number = data.draw(st.integers(0, world.celebrities - 1))
    bitmaps, m = WorldBitmaps(world), members_of(world, shard)
    follows = world.follows(celebrity_number, m)

    assert equals(bitmaps.followers(celebrity_number, shard), follows)
    assert equals(bitmaps.muting(celebrity_number, shard), follows & world.mutes(celebrity_number, m))
    assert equals(bitmaps.account_wide_set(SetKind.ACTIVE_24H, shard), world.idleness(m) < ACTIVE_24H)
    assert equals(bitmaps.account_wide_set(SetKind.ACTIVE_7D, shard), world.idleness(m) < ACTIVE_7D)
    assert equals(bitmaps.account_wide_set(SetKind.ACTIVE_30D, shard), world.idleness(m) < ACTIVE_30D)
    assert equals(bitmaps.account_wide_set(SetKind.VIP, shard), world.vip(m))
    assert equals(bitmaps.account_wide_set(SetKind.WITH_DEVICE, shard), world.has_device(m))


@given(worlds())
@settings(max_examples=30, deadline=None)
def test_celebrity_has_as_many_followers_as_the_formula_says(world: World) -> None:
    bitmaps = WorldBitmaps(world)
    for celebrity_number in range(world.celebrities):
        assert sum(
            count(bitmaps.followers(celebrity_number, shard)) for shard in range(world.shards)
        ) == world.follower_count(celebrity_number)


def test_formulas_give_the_documented_numbers() -> None:
    """Check the example in docs/fixture.md."""
    world = World(universe=2_000_000, followers=1_000_000, celebrities=12, seed=1)
    assert [world.follower_count(celebrity_number) for celebrity_number in range(7)] == [
        1_000_000,
        250_000,
        62_500,
        15_625,
        3_906,
        976,
        1_000_000,
    ]
    assert world.spread == 2_654_435_761
    assert world.position(0, 42) == (42 * 2_654_435_761 + 0 * 100_003 + 1) % 2_000_000 == 301_963
    assert world.celebrity_member(0) == 16 * 131_072


def test_names_are_numbered_after_the_known_ones() -> None:
    names = World(universe=10, followers=1, celebrities=18, seed=0).names
    assert names[0] == "nova"
    assert names[15:] == ("deneb", "star17", "star18")


@pytest.mark.parametrize(
    ("universe", "followers", "celebrities", "seed"),
    [(10, 11, 1, 0), (0, 0, 1, 0), (10, 0, 1, 0), (10, -1, 1, 0), (10, 5, 0, 0), (10, 5, 1, -1), (2**31 + 1, 1, 1, 0)],
)
def test_invalid_world_is_rejected(universe: int, followers: int, celebrities: int, seed: int) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        World(universe=universe, followers=followers, celebrities=celebrities, seed=seed)


@given(worlds())
@settings(max_examples=30, deadline=None)
def test_members_with_device_equal_the_formula(world: World) -> None:
    all_members = np.arange(world.universe, dtype=np.int64)
    assert world.members_with_device().tolist() == np.flatnonzero(world.has_device(all_members)).tolist()


def test_single_user_has_a_device() -> None:
    assert World(universe=1, followers=1, celebrities=1, seed=1).members_with_device().tolist() == [0]


@pytest.mark.parametrize("universe", [100_000, 1_000_000])
def test_small_demo_has_a_vip_with_a_device(universe: int) -> None:
    world = World(universe=universe, followers=universe, celebrities=1, seed=1)
    m = world.members_with_device()
    assert np.any(world.follows(0, m) & ~world.mutes(0, m) & world.vip(m) & (world.idleness(m) < ACTIVE_7D))


def test_200_million_users_have_about_15_000_devices() -> None:
    world = World(universe=200_000_000, followers=200_000_000, celebrities=1, seed=1)
    m = world.members_with_device()
    audience = world.follows(0, m) & ~world.mutes(0, m)
    p0 = audience & world.vip(m) & (world.idleness(m) < ACTIVE_7D)
    p1 = audience & ~world.vip(m) & (world.idleness(m) < ACTIVE_24H)
    assert (world.device_every, len(m), int(p0.sum()), int(p1.sum())) == (50_002, 15_460, 904, 199)
    kinds = Counter((platform(member), LOCALES[member % len(LOCALES)]) for member in m.tolist())
    assert len(kinds) == 3 * 13
    assert min(kinds.values()) > 300


def test_member_is_read_from_device_address() -> None:
    for device_ in map(partial(device, registered_at=NOON), (0, 1, 2, 41, 131_071, 199_999_999, 2**31 - 1)):
        assert device_.platform is platform(device_.member)
        match device_.address:
            case AppleToken(token=to) | FirebaseToken(token=to) | FirebaseInstallation(fid=to):
                assert member_of(to) == device_.member
            case WebSubscription(endpoint=endpoint):
                assert member_of(urlsplit(endpoint).path) == device_.member
    for foreign in ("", "fixture-", "fixture-x", "fixture--1", "f" * 64, f"{'0' * 63}g", "/wpush/v2/other-1"):
        assert member_of(foreign) is None


def test_browser_keys_follow_the_documented_formula() -> None:
    subscription, path = fixture_subscription(PUSH_SERVICE_ORIGIN, 5), b"/wpush/v2/fixture-5"
    order = 2**256 - 2**224 + 2**192 - 0x4319055258E8617B0C46353D039CDAAF
    private = derive_private_key(int.from_bytes(blake2s(path).digest(), "big") % (order - 1) + 1, SECP256R1())
    public = private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    assert (subscription.endpoint, subscription.key) == (
        f"https://updates.push.services.mozilla.com{path.decode()}",
        public,
    )
    assert subscription.secret == blake2s(b"auth" + path).digest()[:16]
    assert (
        web_subscription(
            subscription.endpoint, urlsafe_b64encode(public).decode(), urlsafe_b64encode(subscription.secret).decode()
        )
        == subscription
    )


def load(
    world: World,
    store: "Store",
    advance: Advance = lambda _: None,
    first_loaded: Callable[[], None] = lambda: None,
) -> None:
    WorldLoader(
        directory=store.directory,
        sets=store.sets,
        follows=MemoryFollows(store.people),
        active_sets=MemoryActiveSets(),
        subject_preferences=MemorySubjectPreferences(store.people),
        devices=store.devices,
        clock=store.clock,
    )(world, advance, first_loaded)


class Store:
    def __init__(self) -> None:
        self.clock = ManualClock(NOON)
        self.directory = MemoryDirectory()
        self.sets = MemoryMemberSets(self.directory)
        self.people = MemoryPeople(self.directory)
        self.devices = MemoryDevices(self.clock)


def test_follows_agree_with_member_sets_without_muted() -> None:
    store, progress = Store(), list[int]()
    load(SMALL, store, progress.append)

    for m in (0, 1, 42, 131_071, 131_072, 262_143, 299_999):
        number = np.array([m])
        viewer = asyncio.run(store.people.viewer(user(m), Member(m)))
        expected = {
            SMALL.subject(celebrity_number)
            for celebrity_number in range(SMALL.celebrities)
            if SMALL.follows(celebrity_number, number)[0] and not SMALL.mutes(celebrity_number, number)[0]
        }
        assert set(viewer.listed_subjects) == expected
    assert sum(progress) == steps(SMALL)


def test_second_celebrity_has_the_requested_followers() -> None:
    world, store = replace(SMALL, second_followers=77_777), Store()
    load(world, store)
    assert [world.follower_count(celebrity_number) for celebrity_number in range(3)] == [
        SMALL.follower_count(0),
        77_777,
        SMALL.follower_count(2),
    ]
    assert store.sets.follower_counts(world.subject(1)).total == 77_777


def test_second_followers_require_a_second_celebrity() -> None:
    with pytest.raises(ValueError, match="needs at least two celebrities"):
        World(universe=10, followers=5, celebrities=1, seed=1, second_followers=5)


def test_first_celebrity_is_complete_before_others_load() -> None:
    store, accounts_seen = Store(), list[list[str]]()

    def first_loaded() -> None:
        accounts_seen.append(sorted(store.directory.accounts(SMALL.names)))
        assert user(0) in store.directory.accounts([user(0)])

    load(SMALL, store, first_loaded=first_loaded)
    assert accounts_seen == [[SMALL.names[0]]]


def test_devices_agree_with_the_push_set() -> None:
    store = Store()
    load(SMALL, store)
    for shard in range(SMALL.shards):
        members = store.sets.read(SetKind.WITH_DEVICE, None, [shard])[shard]
        assert np.array_equal(members, store.devices.members_with_device(shard))
        assert count(members) > 400


def test_loading_in_a_later_hour_renews_devices() -> None:
    store = Store()
    load(SMALL, store)
    first_devices = dict(store.devices.kept)
    store.clock.advance(timedelta(minutes=29))
    load(SMALL, store)
    assert store.devices.kept == first_devices
    store.clock.advance(DEVICE_KEPT_FOR)
    load(SMALL, store)
    assert store.devices.kept.keys() == first_devices.keys()
    assert np.array_equal(store.devices.members_with_device(0), from_flags(SMALL.has_device(members_of(SMALL, 0))))


def test_loading_twice_is_idempotent() -> None:
    store = Store()
    sets = store.sets
    load(SMALL, store)
    before = {shard: offsets(sets.live(SMALL.subject(2), [shard])[0][SetKind.FOLLOWERS]).tolist() for shard in range(3)}
    load(SMALL, store)
    after = {shard: offsets(sets.live(SMALL.subject(2), [shard])[0][SetKind.FOLLOWERS]).tolist() for shard in range(3)}
    assert before == after
    assert sum(map(len, before.values())) == SMALL.follower_count(2) == sets.follower_counts(SMALL.subject(2)).total


def test_directory_has_users_and_then_celebrities() -> None:
    store = Store()
    load(SMALL, store)
    accounts = store.directory.accounts([user(0), user(299_999), user(300_000), *SMALL.names])
    assert {name: account.member for name, account in accounts.items()} == {
        user(0): 0,
        user(299_999): 299_999,
    } | {name: 3 * SHARD_MEMBERS + celebrity_number for celebrity_number, name in enumerate(SMALL.names)}
