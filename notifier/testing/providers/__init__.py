"""Providers that answer as the real ones document it, without a network: what a sender is tried against."""

from notifier.testing.providers.apns import FakeApns
from notifier.testing.providers.fcm import FakeFcm
from notifier.testing.providers.manners import Manner
from notifier.testing.providers.script import Script, Span
from notifier.testing.providers.webpush import FakePushService

__all__ = ["FakeApns", "FakeFcm", "FakePushService", "Manner", "Script", "Span"]
