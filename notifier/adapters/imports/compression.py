"""Files that were packed with gzip or zstd, as one reads them."""

import gzip
from typing import BinaryIO, cast

from notifier.domain.errors import BadImport, Environment

NEEDS = 'Parquet and zstd need an extra: pip install "notifier[import]".'

GZIP, ZSTD, PARQUET = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"
"""What their files begin with."""


def unpacked(file: BinaryIO) -> BinaryIO:
    """By what it begins with; a file that isn't packed is read as it is. Raises Environment without the extra, and
    BadImport for what has no lines."""
    begins = file.peek(4) if hasattr(file, "peek") else b""
    if begins.startswith(GZIP):
        return cast(BinaryIO, gzip.GzipFile(fileobj=file))
    if begins.startswith(ZSTD):
        return _zstd(file)
    if begins.startswith(PARQUET):
        raise BadImport("It is Parquet, which --form parquet reads, from a file alone.")
    return file


def _zstd(file: BinaryIO) -> BinaryIO:
    try:
        import pyarrow as pa
    except ImportError:
        raise Environment(NEEDS) from None
    return cast(BinaryIO, pa.CompressedInputStream(pa.PythonFile(file), "zstd"))
