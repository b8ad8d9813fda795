"""Errors of this machine or data folder (exit code 3)."""

from notifier.domain.errors.root_and_uncategorized_errors import NotifierError


class UnusableEnvironment(NotifierError):
    """This machine can't run the command as configured."""

    code = "environment"


class BadSetting(UnusableEnvironment):
    """A setting is missing or invalid."""

    code = "bad_setting"


class SchemaNewer(UnusableEnvironment):
    """The store was written by a newer version of this software; use that version, or another folder or keyspace."""

    code = "schema_newer"


class SchemaOlder(UnusableEnvironment):
    """The store's schema is older than this version needs; run `notifier migrate`."""

    code = "schema_older"


class SchemaChanged(UnusableEnvironment):
    """A migration that was applied before has been edited since."""

    code = "schema_changed"


class DataLocked(UnusableEnvironment):
    """The data folder is in use by another running notifier."""

    code = "data_locked"


class Unwritable(UnusableEnvironment):
    """The data folder can't be written to."""

    code = "unwritable"


class FileUnwritable(Unwritable):
    """The file can't be written."""

    code = "file_unwritable"


class PortTaken(UnusableEnvironment):
    """The port is taken by another program; choose another with --port, or 0 for any."""

    code = "port_taken"


class NoValkey(UnusableEnvironment):
    """There is no Valkey binary for this platform; install a Redis or Valkey and set NOTIFIER_REDIS_URL."""

    code = "no_valkey"


class FolderNotEmpty(UnusableEnvironment):
    """The folder isn't empty, and the demo's check would count its deliveries, too; name an empty or a new folder."""

    code = "not_empty"


class NotADataFolder(UnusableEnvironment):
    """The folder isn't a notifier's data folder, and is left unchanged; name another folder."""

    code = "not_ours"


class OtherWorld(UnusableEnvironment):
    """The data folder holds another world, and users would have the follows of both; name another folder."""

    code = "other_world"


class NoData(UnusableEnvironment):
    """There is no data folder here; `notifier up` makes one, and --data names another."""

    code = "no_data"


class NotRunning(UnusableEnvironment):
    """No notifier is running on this data folder; start one with `notifier up`."""

    code = "not_running"
