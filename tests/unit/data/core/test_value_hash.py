import numpy as np
from hypothesis import given, strategies as st

from heterps.data.core.value_hash import RESERVED_ID, cross_ids, hash_bytes, hash_span, hash_strings, salt_of


@given(st.binary(max_size=40), st.binary(max_size=9), st.integers(0, 2**64 - 1))
def test_compiled_hash_is_the_definition(value: bytes, before: bytes, salt: int) -> None:
    padded = np.frombuffer(before + value + b"\xff" * 16, np.uint8)
    got = hash_span(padded, len(before), len(before) + len(value), np.uint64(salt))
    assert int(got) == hash_bytes(value, salt) != RESERVED_ID


def test_ids_never_change_between_versions() -> None:
    # Tables in checkpoints are keyed by these: a change here makes every saved model useless.
    assert salt_of("C1") == 17182650280339092543
    assert hash_bytes(b"68fd1e64", salt_of("C1")) == 4572176459443160439
    assert hash_bytes(b"", salt_of("C1")) == 10152563395517144467
    assert cross_ids(1, 2, 3) == 14260741115908983080


def test_columns_and_order_separate_ids() -> None:
    assert hash_bytes(b"a", salt_of("C1")) != hash_bytes(b"a", salt_of("C2"))
    assert cross_ids(1, 2) != cross_ids(2, 1)
    assert len({hash_bytes(b"\0" * n) for n in range(20)}) == 20


def test_numbers_hash_as_their_decimal_text() -> None:
    assert hash_strings([12, "12", b"12", None, ""]).tolist() == [hash_bytes(b"12")] * 3 + [hash_bytes(b"")] * 2
