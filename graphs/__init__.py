"""Models, one per file, each a function with keyword arguments that returns a Graph.

Installed as ``heterps.models``; the same files lie in ``graphs/`` to be read and copied. Commands take them by name.
"""

from .ctrdnn import ctrdnn
from .dcn_v2 import dcn_v2
from .deepfm import deepfm
from .din import din
from .dlrm import dlrm
from .dnn import dnn
from .matchnet import matchnet
from .mmoe import mmoe
from .mnist_mlp import mnist_mlp
from .nce import nce
from .resnet import resnet
from .two_emb import two_emb
from .wide_deep import wide_deep
from .word2vec import word2vec

__all__ = [
    "ctrdnn",
    "dcn_v2",
    "deepfm",
    "din",
    "dlrm",
    "dnn",
    "matchnet",
    "mmoe",
    "mnist_mlp",
    "nce",
    "resnet",
    "two_emb",
    "wide_deep",
    "word2vec",
]
