"""ResNet-18 and ResNet-50 (He et al., 2016), for small images (``stem="small"``) or as for ImageNet."""

import heterps as hps
from heterps import ops

DEPTHS = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}


def unit(x: ops.Tensor, channels: int, kernel: int, stride: int, name: str, *, relu: bool = True) -> ops.Tensor:
    """Convolution, normalisation, activation."""
    h = ops.conv2d(x, channels, kernel, stride=stride, padding=kernel // 2, bias=False, name=name)
    h = ops.batch_norm(h, name=f"{name}_norm")
    return ops.relu(h, name=f"{name}_relu") if relu else h


def block(x: ops.Tensor, channels: int, stride: int, bottleneck: bool, name: str) -> ops.Tensor:
    """Two 3x3 convolutions, or a narrow one between two points, beside a shortcut."""
    wide = 4 * channels if bottleneck else channels
    if bottleneck:
        h = unit(unit(x, channels, 1, 1, f"{name}_a"), channels, 3, stride, f"{name}_b")
        h = unit(h, wide, 1, 1, f"{name}_c", relu=False)
    else:
        h = unit(unit(x, channels, 3, stride, f"{name}_a"), channels, 3, 1, f"{name}_b", relu=False)
    if x.shape != h.shape:
        x = unit(x, wide, 1, stride, f"{name}_shortcut", relu=False)
    return ops.relu(ops.add(x, h, name=f"{name}_sum"), name=f"{name}_out")


def resnet(
    layers: int = 18,
    shape: tuple[int, int, int] = (32, 32, 3),
    classes: int = 10,
    width: int = 64,
    stem: str = "small",
) -> hps.Graph:
    """Columns ``x`` (height, width, channels) and ``y``, the class. ``layers`` is 18 or 50."""
    x, y = ops.input("x", shape=shape), ops.input("y", dtype="int64")
    if stem == "small":
        h = unit(x, width, 3, 1, "stem")
    else:
        h = ops.max_pool(unit(x, width, 7, 2, "stem"), 3, stride=2, padding=1, name="stem_pool")
    for stage, blocks in enumerate(DEPTHS[layers]):
        for i in range(blocks):
            stride = 2 if stage and not i else 1
            h = block(h, width * 2**stage, stride, layers >= 50, f"stage{stage}_{i}")
    logits = ops.dense(ops.global_avg_pool(h, name="pooled"), classes, name="out")
    return hps.Graph(loss=ops.softmax_cross_entropy(logits, y, name="loss"))
