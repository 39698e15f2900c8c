"""What makes a graph legal: small named predicates, each yielding the mistakes it finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from heterps.errors import GraphError
from heterps.graph.order import Circle, needs_first
from heterps.graph.tensor import PLACES

if TYPE_CHECKING:
    from heterps.graph.graph import Graph

__all__ = ["RULES", "check", "topological"]

# Lookups of one table may differ in these only.
_PER_LOOKUP = ("pooling", "padding_id")


def names_are_unique(graph: Graph) -> Iterator[str]:
    """Two ops of one name could not be told apart."""
    for name, count in Counter(op.name for op in graph.ops).items():
        if count > 1:
            yield f"{count} ops are called {name!r}; give each its own name"


def inputs_come_first(graph: Graph) -> Iterator[str]:
    """Every op reads only what stands before it."""
    seen: set[str] = set()
    for op in graph.ops:
        for source in op.inputs:
            if source not in seen:
                yield f"op {op.name!r} reads {source!r}, which does not come before it"
        seen.add(op.name)


def there_is_a_loss(graph: Graph) -> Iterator[str]:
    """The loss is an op of a loss kind."""
    if graph.loss not in graph:
        yield f"no loss: the graph has no op {graph.loss!r}"
    elif not graph.kind(graph[graph.loss]).loss:
        yield f"no loss: op {graph.loss!r} is a {graph[graph.loss].kind}, which is not a loss"


def outputs_exist(graph: Graph) -> Iterator[str]:
    """Named outputs are ops of the graph."""
    for key, name in graph.outputs.items():
        if name not in graph:
            yield f"output {key!r} names the op {name!r}, which is not in the graph"


def losses_end(graph: Graph) -> Iterator[str]:
    """Nothing reads a loss: it is one number per batch."""
    for op in graph.ops:
        if graph.kind(op).loss and graph.consumers(op.name):
            yield f"op {graph.consumers(op.name)[0].name!r} reads the loss {op.name!r}"


def tables_agree(graph: Graph) -> Iterator[str]:
    """All lookups of one table say the same about it."""
    first: dict[str, Any] = {}
    for op in graph.ops:
        if op.kind != "lookup":
            continue
        told = first.setdefault(op.attrs["table"], op)
        for key, value in op.attrs.items():
            if key not in _PER_LOOKUP and value != told.attrs[key]:
                yield (
                    f"table {op.attrs['table']!r} has {key}={told.attrs[key]!r} in op {told.name!r} "
                    f"but {key}={value!r} in op {op.name!r}; use one value or two table names"
                )


def places_are_known(graph: Graph) -> Iterator[str]:
    """Pins name a known kind of pool."""
    for op in graph.ops:
        if op.place is not None and op.place not in PLACES:
            yield f"op {op.name!r} is pinned to {op.place!r}; places are {PLACES}"


RULES: tuple[Callable[[Graph], Iterator[str]], ...] = (
    names_are_unique,
    inputs_come_first,
    there_is_a_loss,
    outputs_exist,
    losses_end,
    tables_agree,
    places_are_known,
)


def check(graph: Graph) -> None:
    """Raise the first mistake any rule finds."""
    for rule in RULES:
        for mistake in rule(graph):
            raise GraphError(mistake)


def _named_once(inputs: Sequence[tuple[str, Sequence[str]]]) -> None:
    counts = Counter(name for name, _ in inputs)
    for name, count in counts.items():
        if count > 1:
            raise GraphError(f"{count} ops are called {name!r}; give each its own name")
    for name, sources in inputs:
        for source in sources:
            if source not in counts:
                raise GraphError(f"op {name!r} reads {source!r}, which is not in the graph")


def topological(inputs: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Names of ops, given with those each reads, parents first, else in the order given; a cycle is named."""
    _named_once(inputs)
    place = {name: i for i, (name, _) in enumerate(inputs)}
    try:
        return needs_first(dict(inputs), place.__getitem__)
    except Circle as circle:
        raise GraphError(f"the graph has a cycle: {' -> '.join([*circle.loop, circle.loop[0]])}") from None
