from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given, strategies as st

from heterps.graph.order import Circle, needed_for, needs_first

NEEDS = st.dictionaries(st.integers(0, 7), st.lists(st.integers(0, 7), max_size=3), max_size=8).map(
    lambda drawn: {key: [source for source in sources if source in drawn] for key, sources in drawn.items()}
)


def view_of(needs: dict[int, list[int]]) -> nx.DiGraph[int]:
    view: nx.DiGraph[int] = nx.DiGraph()
    view.add_nodes_from(needs)
    view.add_edges_from((source, key) for key, sources in needs.items() for source in sources)
    return view


@given(NEEDS, st.permutations(range(8)))
def test_order_and_circles_are_those_of_networkx(needs: dict[int, list[int]], rank: list[int]) -> None:
    view = view_of(needs)
    if nx.is_directed_acyclic_graph(view):
        wanted = list(nx.lexicographical_topological_sort(view, key=rank.__getitem__))
        assert needs_first(needs, rank.__getitem__) == wanted
        return
    with pytest.raises(Circle) as told:
        needs_first(needs, rank.__getitem__)
    loop = told.value.loop
    assert len(set(loop)) == len(loop)
    assert all(before in needs[key] for before, key in zip([loop[-1], *loop], loop, strict=False))


@given(NEEDS, st.sets(st.integers(0, 7)))
def test_what_is_needed_are_the_ancestors_of_networkx(needs: dict[int, list[int]], roots: set[int]) -> None:
    known = roots & set(needs)
    wanted = known.union(*(nx.ancestors(view_of(needs), root) for root in known))
    assert needed_for(needs.__getitem__, known) == wanted
