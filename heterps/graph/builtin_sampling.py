"""Shape rules of drawn negatives and of the losses that use them."""

from __future__ import annotations

from dataclasses import replace

from heterps.errors import GraphError
from heterps.graph.attribute_types import types_of
from heterps.graph.builtin import Types, expect_dense, expect_rank
from heterps.graph.kinds import REQUIRED, Attrs, OpKind, register_kind
from heterps.graph.types import Form, TensorType

__all__ = ["DISTRIBUTIONS", "SAMPLER"]

DISTRIBUTIONS = ("uniform", "log_uniform", "weights")
SAMPLER = {"vocabulary": REQUIRED, "distribution": "uniform", "weights": None}
SCALAR = TensorType((), "float32", Form.SCALAR)


def _check_sampler(attrs: Attrs) -> None:
    size, weights = attrs["vocabulary"], attrs["weights"]
    if attrs["distribution"] not in DISTRIBUTIONS:
        raise GraphError(f"distribution must be one of {DISTRIBUTIONS}, got {attrs['distribution']!r}")
    if (attrs["distribution"] == "weights") != (weights is not None):
        raise GraphError("give weights with distribution='weights', and only then")
    if weights is not None and (len(weights) != size or not sum(weights) > 0):
        raise GraphError(f"weights must be {size} numbers, none negative and not all 0, got {len(weights)}")


def _negative_sampling(attrs: Attrs, inputs: Types) -> TensorType:
    _check_sampler(attrs)
    return TensorType((attrs["count"],), "uint64")


def _sampled_loss(attrs: Attrs, inputs: Types) -> TensorType:
    score, scores, true, sampled = inputs
    _check_sampler(attrs)
    expect_dense(score, scores)
    expect_rank(scores, 1, "the scores of sampled ids")
    if score.size != 1 or true.size != 1:
        raise GraphError(f"the true id and its score must be one number per sample, got {true} and {score}")
    if true.dtype != "uint64" or sampled.dtype != "uint64" or sampled.shape != scores.shape:
        raise GraphError(f"need uint64 ids, one for each score: got {true} and {sampled} for scores {scores}")
    return SCALAR


def _in_batch_softmax(attrs: Attrs, inputs: Types) -> TensorType:
    user, item = inputs[:2]
    expect_dense(user, item)
    expect_rank(user, 1, "the first input")
    if user.shape != item.shape:
        raise GraphError(f"both vectors must have one length, got {user.shape} and {item.shape}")
    if len(inputs) > 2 and (inputs[2].dtype != "uint64" or inputs[2].size != 1):
        raise GraphError(f"the item id must be one uint64 per sample, got {inputs[2]}")
    if len(inputs) > 3 and (not inputs[3].dtype.startswith("float") or inputs[3].size != 1):
        raise GraphError(f"log_share must be one number per sample, got {inputs[3]}")
    return SCALAR


def _multi_logloss(attrs: Attrs, inputs: Types) -> TensorType:
    logits, labels = inputs
    expect_dense(logits, labels)
    expect_rank(logits, 1, "logits")
    if logits.shape != labels.shape:
        raise GraphError(f"logits and labels must have one shape, got {logits.shape} and {labels.shape}")
    return SCALAR


for _kind in (
    OpKind(
        "negative_sampling",
        _negative_sampling,
        {"count": REQUIRED, **SAMPLER},
        access="file",
        doc="ids drawn at random, keyed by (seed, op, batch key)",
    ),
    OpKind("nce", _sampled_loss, {**SAMPLER, "correction": True}, (4, 4), loss=True, doc="true id against sampled ids"),
    OpKind("sampled_softmax", _sampled_loss, SAMPLER, (4, 4), loss=True, doc="softmax over true and sampled ids"),
    OpKind(
        "in_batch_softmax",
        _in_batch_softmax,
        {"temperature": 1.0},
        (2, 4),
        loss=True,
        doc="each sample's item against those of the whole batch",
    ),
    OpKind("multi_logloss", _multi_logloss, {}, (2, 2), loss=True, doc="sum of the tasks' binary cross entropies"),
):
    register_kind(replace(_kind, types=types_of(_kind.attrs)))
