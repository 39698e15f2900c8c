"""The scrambler's bits are part of the snapshot format: they are compared with fixed values."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numba import njit

from heterps.data.core.permutation import permutation
from heterps.data.core.value_hash import hash_bytes, salt_of
from heterps.kernels.random import uniform_bits
from heterps.mixing import GOLDEN, MASK, finalise, finalise_array, finalise_word
from heterps.tables.hashing import key_of, mix, shards_of

#: The first numbers of splitmix64 from seed 0, as published with the algorithm.
PUBLISHED = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]


@njit
def in_a_loop(z: np.uint64) -> np.uint64:
    return finalise_word(z)


@njit
def mixed(z: np.uint64) -> np.uint64:
    return mix(z)


def test_the_published_numbers() -> None:
    assert [finalise(GOLDEN * n) for n in range(1, 5)] == PUBLISHED
    assert uniform_bits(np, 0, 4).tolist() == PUBLISHED  # type: ignore[arg-type]


@given(st.integers(0, MASK))
def test_all_forms_give_the_same_bits(z: int) -> None:
    assert int(in_a_loop(np.uint64(z))) == int(finalise_array(np.array([z], np.uint64))[0]) == finalise(z)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (lambda: int(mixed(np.uint64(7))), 7191089600892374487),
        (lambda: key_of(3, "deep"), 11607777631252272872),
        (lambda: shards_of(np.arange(6, dtype=np.uint64), 1000).tolist(), [535, 465, 110, 53, 978, 618]),
        (lambda: permutation(8, 5).tolist(), [7, 2, 6, 4, 0, 1, 5, 3]),
        (lambda: hash_bytes(b"Bachelors", salt_of("education")), 5343770712814907767),
    ],
    ids=["mix", "key_of", "shards_of", "permutation", "hash_bytes"],
)
def test_what_follows_from_it_stays_the_same(found: object, wanted: object) -> None:
    assert found() == wanted  # type: ignore[operator]
