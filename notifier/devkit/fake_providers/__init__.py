"""Fake push providers that follow the real ones' documentation, to test senders offline."""

from notifier.devkit.fake_providers.apns import FakeApns
from notifier.devkit.fake_providers.behavior import FaultWindow, ProviderScript
from notifier.devkit.fake_providers.fcm import FakeFcm
from notifier.devkit.fake_providers.webpush import FakePushService
from notifier.devkit.fake_providers.webpush_refusals import RefusalDialect

__all__ = ["FakeApns", "FakeFcm", "FakePushService", "FaultWindow", "ProviderScript", "RefusalDialect"]
