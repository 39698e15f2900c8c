"""How bugs to plant are listed, by name."""

from collections.abc import Callable

import pytest

Plant = Callable[[pytest.MonkeyPatch], None]


class Planted(dict[str, Plant]):
    """Bugs by name; calling it adds one, as a decorator."""

    def __call__(self, plant: Plant) -> Plant:
        self[plant.__name__] = plant
        return plant
