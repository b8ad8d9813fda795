"""What a scenario tells while it goes on."""

from collections.abc import Callable

Tell = Callable[[str], None]
