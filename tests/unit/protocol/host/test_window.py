from hypothesis import given, strategies as st

from heterps.protocol import BatchKey, Window

keys = st.builds(BatchKey, st.integers(0, 1), st.integers(0, 2), st.integers(0, 12))


@given(st.lists(keys))
def test_window_is_a_set_of_keys(sequence: list[BatchKey]) -> None:
    window, plain = Window(), set()
    for key in sequence:
        assert window.add(key) == (key not in plain)
        plain.add(key)
    assert set(window) == plain
    assert len(window) == len(plain)
    assert Window.from_json(window.to_json()) == window == window.copy()


@given(st.permutations(range(20)))
def test_window_collapses_to_its_low_water_mark(order: list[int]) -> None:
    window = Window()
    for n in order:
        window.add(BatchKey(0, 0, n))
    assert window.to_json() == [[0, 0, 20, []]]
