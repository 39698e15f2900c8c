"""The least of many, found as a look at all of them would find it."""

from hypothesis import given, strategies as st

from heterps.protocol.run.ranking import Ranking

changes = st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(0, 3)), max_size=200)


@given(changes, st.integers(0, 5))
def test_it_finds_what_a_look_at_all_would_find(changes: list[tuple[int, int | None]], avoid: int) -> None:
    ranking, keys = Ranking[int](), dict[int, tuple[int, int]]()
    for name, key in changes:
        if key is None:
            ranking.drop(name)
            keys.pop(name, None)
        else:
            ranking.put(name, (key, name))
            keys[name] = (key, name)
        assert ranking.best() == min(keys, key=keys.__getitem__, default=None)
        others = [each for each in keys if each != avoid]
        assert ranking.best(lambda name: name != avoid) == min(others, key=keys.__getitem__, default=None)
    assert ranking.keys == keys


def test_it_does_not_grow_with_the_number_of_changes() -> None:
    ranking = Ranking[str]()
    ranking.put("first", (0,))
    for n in range(10_000):
        ranking.put("other", (n % 7 + 1,))
    assert ranking.best() == "first"
    assert len(ranking._heap) < 100
