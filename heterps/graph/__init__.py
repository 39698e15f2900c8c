"""The model as a value: Op, Graph, legality, JSON. No arrays."""
