"""Graph to Layers: labels, legality, bytes across each cut."""

from heterps.stages.contract import layers_of
from heterps.stages.layers import Bound, Edge, Layer, Layers
from heterps.stages.lowering import Group, Lowered, lower
from heterps.stages.partition import Part, Partition, partition

__all__ = [
    "Bound",
    "Edge",
    "Group",
    "Layer",
    "Layers",
    "Lowered",
    "Part",
    "Partition",
    "layers_of",
    "lower",
    "partition",
]
