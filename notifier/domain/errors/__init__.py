"""Everything that can be wrong, as one tree; an error's docstring is its message.

NotifierError
├── Refused                     the caller's input can't be taken (HTTP 4xx, CLI exit code 2)
│   ├── BadSubject  BadEvent  TooLarge  WrongType  EventConflict  NotFound
│   ├── BadCursor  BadSeen  BadToken  Forbidden  BadThrottle  BadMark  TooManyStreams  NotSupported
│   ├── BadImport  BadPreference  NumberTaken  TooManyRequests  BadReach
│   ├── BadDevice
│   │   └── ForeignDevice
├── Unavailable                 a part doesn't answer now; try again (HTTP 503)
│   ├── StoreUnavailable  LogUnavailable  CacheUnavailable  QueueUnavailable  StreamsFull  NoAnswer
│   ├── IssuerUnavailable
├── Full                        the disk is full; writes are refused, reads go on (HTTP 507)
├── Environment                 this machine or folder can't run it (CLI exit code 3)
│   ├── BadSetting  SchemaNewer  SchemaOlder  SchemaChanged  DataLocked  NoData  NotRunning
│   ├── PortTaken  NoValkey  NotEmpty  NotOurs  OtherWorld
│   ├── Unwritable
│   │   └── FileUnwritable
├── LaneStopped                 too many records of a lane died; it waits for an operator
├── Poison                      a record or blob that will never be readable (dead letters)
└── RuleFailed                  a platform's own rule of tiers, asked for a shard (dead letters)
"""

from notifier.domain.errors.environment import (
    BadSetting,
    DataLocked,
    Environment,
    FileUnwritable,
    NoData,
    NotEmpty,
    NotOurs,
    NotRunning,
    NoValkey,
    OtherWorld,
    PortTaken,
    SchemaChanged,
    SchemaNewer,
    SchemaOlder,
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
    BadSeen,
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
from notifier.domain.errors.root import (
    Full,
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
    "BadSeen",
    "BadSetting",
    "BadSubject",
    "BadThrottle",
    "BadToken",
    "CacheUnavailable",
    "DataLocked",
    "Environment",
    "EventConflict",
    "FileUnwritable",
    "Forbidden",
    "ForeignDevice",
    "Full",
    "IssuerUnavailable",
    "LaneStopped",
    "LogUnavailable",
    "NoAnswer",
    "NoData",
    "NoValkey",
    "NotEmpty",
    "NotFound",
    "NotOurs",
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
    "Unwritable",
    "WrongType",
]

OUTAGES = (Unavailable, Full, Environment)
"""None of them is the fault of what was being done: that waits, uses up none of its tries, and is done when they pass.
The last is met after the start where the store was away then: a schema that lacks something, or no keyspace at all."""
