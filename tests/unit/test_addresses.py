from __future__ import annotations

import numpy as np

from heterps.addresses import addresses, places


def test_addresses_are_those_of_numpy_for_any_array() -> None:
    whole = np.arange(20, dtype=np.int64)
    locked = whole[3:9].copy()
    locked.flags.writeable = False
    arrays = [whole[5:], whole[:2], whole.reshape(4, 5)[2], locked, np.empty(0, np.int64)]
    assert addresses(arrays).tolist() == [array.ctypes.data for array in arrays]


def test_places_are_elements_from_the_first_array_on() -> None:
    whole = np.arange(20, dtype=np.int32)
    assert places(addresses([whole[7:], whole[3:5], whole[19:]]), whole.itemsize).tolist() == [0, -4, 12]
