"""The tree of errors. The docstring of an error is its message.

NotifierError
├── Refused                     the caller's input is not accepted (HTTP 4xx, CLI exit code 2)
│   ├── BadSubject  BadEvent  TooLarge  WrongType  EventConflict  NotFound
│   ├── BadCursor  BadSeenToken  BadToken  Forbidden  BadThrottle  BadMark  TooManyStreams  NotSupported
│   ├── BadImport  BadPreference  NumberTaken  TooManyRequests  BadReach
│   └── BadDevice
│       └── ForeignDevice
├── Unavailable                 a dependency doesn't answer now; retry (HTTP 503)
│   ├── StoreUnavailable  LogUnavailable  CacheUnavailable  QueueUnavailable  StreamsFull  NoAnswer
│   └── IssuerUnavailable
├── DiskFull                    the disk is full; writes are refused, reads still work (HTTP 507)
├── UnusableEnvironment         this machine or folder can't run the command (CLI exit code 3)
│   ├── BadSetting  SchemaNewer  SchemaOlder  SchemaChanged  DataLocked  NoData  NotRunning
│   ├── PortTaken  NoValkey  FolderNotEmpty  NotADataFolder  OtherWorld
│   └── Unwritable
│       └── FileUnwritable
├── LaneStopped                 too many records of a processing lane became dead letters
├── Poison                      a record or blob that can never be used (dead letters)
└── RuleFailed                  a configured tier rule failed for a shard (dead letters)
"""

from notifier.domain.errors.environment import (
    BadSetting,
    DataLocked,
    FileUnwritable,
    FolderNotEmpty,
    NoData,
    NotADataFolder,
    NotRunning,
    NoValkey,
    OtherWorld,
    PortTaken,
    SchemaChanged,
    SchemaNewer,
    SchemaOlder,
    UnusableEnvironment,
    Unwritable,
)
from notifier.domain.errors.refused import (
    BadCursor,
    BadDevice,
    BadEvent,
    BadImport,
    BadMark,
    BadPreference,
    BadReach,
    BadSeenToken,
    BadSubject,
    BadThrottle,
    BadToken,
    EventConflict,
    Forbidden,
    ForeignDevice,
    NotFound,
    NotSupported,
    NumberTaken,
    Refused,
    TooLarge,
    TooManyRequests,
    TooManyStreams,
    WrongType,
)
from notifier.domain.errors.root_and_uncategorized_errors import (
    DiskFull,
    LaneStopped,
    NotifierError,
    Poison,
    RuleFailed,
)
from notifier.domain.errors.unavailable import (
    CacheUnavailable,
    IssuerUnavailable,
    LogUnavailable,
    NoAnswer,
    QueueUnavailable,
    StoreUnavailable,
    StreamsFull,
    Unavailable,
)

__all__ = [
    "OUTAGES",
    "BadCursor",
    "BadDevice",
    "BadEvent",
    "BadImport",
    "BadMark",
    "BadPreference",
    "BadReach",
    "BadSeenToken",
    "BadSetting",
    "BadSubject",
    "BadThrottle",
    "BadToken",
    "CacheUnavailable",
    "DataLocked",
    "DiskFull",
    "EventConflict",
    "FileUnwritable",
    "FolderNotEmpty",
    "Forbidden",
    "ForeignDevice",
    "IssuerUnavailable",
    "LaneStopped",
    "LogUnavailable",
    "NoAnswer",
    "NoData",
    "NoValkey",
    "NotADataFolder",
    "NotFound",
    "NotRunning",
    "NotSupported",
    "NotifierError",
    "NumberTaken",
    "OtherWorld",
    "Poison",
    "PortTaken",
    "QueueUnavailable",
    "Refused",
    "RuleFailed",
    "SchemaChanged",
    "SchemaNewer",
    "SchemaOlder",
    "StoreUnavailable",
    "StreamsFull",
    "TooLarge",
    "TooManyRequests",
    "TooManyStreams",
    "Unavailable",
    "UnusableEnvironment",
    "Unwritable",
    "WrongType",
]

OUTAGES = (Unavailable, DiskFull, UnusableEnvironment)
"""Errors that are not the fault of a work item: the item waits, uses up no attempt, and is processed after the outage.

A process that starts while the store is down connects later, and may then raise `UnusableEnvironment`: the keyspace is
missing, or its schema is incomplete.
"""
