"""The client library of Kafka is chosen by name, and the other one isn't needed for it."""

import subprocess
import sys

import pytest

from notifier.adapters.kafka import CONFLUENT, KAFKA_PYTHON

CHOOSES = "log = KafkaLog(Access(servers='127.0.0.1:1'), {!r})"
IMPORTS = "import sys\nfrom notifier.adapters.kafka import Access, KafkaLog\n"
MISSING = "import sys\nsys.modules['confluent_kafka'] = None\n"


def ran(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("library", "imported"), [(KAFKA_PYTHON, False), (CONFLUENT, True)])
def test_the_library_in_c_is_imported_only_by_who_chooses_it(library: str, imported: bool) -> None:
    done = ran(f"{IMPORTS}{CHOOSES.format(library)}\nprint('confluent_kafka' in sys.modules)")
    assert (done.stdout.strip(), done.stderr) == (str(imported), "")


def test_who_chooses_a_library_that_is_missing_is_told_how_to_get_it() -> None:
    done = ran(f"{MISSING}{IMPORTS}{CHOOSES.format(CONFLUENT)}")
    assert ".Environment: " in done.stderr
    assert 'pip install "notifier[cluster,confluent]"' in done.stderr


def test_without_the_library_in_c_the_other_one_can_be_chosen() -> None:
    assert ran(f"{MISSING}{IMPORTS}{CHOOSES.format(KAFKA_PYTHON)}").returncode == 0
