"""Which GPUs of a machine a process sees: what the driver lists, and what CUDA_VISIBLE_DEVICES says of it."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from heterps.hardware.catalogue import catalogue

__all__ = ["ListedGpu", "is_gpu_name", "listed_gpus", "visible_gpus", "words_of"]


class ListedGpu(NamedTuple):
    """A GPU as the NVIDIA driver lists it, and how CUDA_VISIBLE_DEVICES may name it."""

    model: str
    uuid: str = ""
    called: str = ""


def listed_gpus(folder: str = "/proc/driver/nvidia/gpus") -> tuple[ListedGpu, ...]:
    """Return the GPUs that the driver lists, by bus address; no CUDA library is loaded for it."""
    found: list[ListedGpu] = []
    for path in sorted(pathlib.Path(folder).glob("*/information")):
        told = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
        if "Model" in told:
            number = str(len(found))
            found.append(ListedGpu(told["Model"].strip(), told.get("GPU UUID", "").strip(), number))
    return tuple(found)


def visible_gpus(listed: Sequence[ListedGpu], chosen: str | None) -> tuple[ListedGpu, ...]:
    """Return those that a process sees, in its order, as CUDA reads the variable.

    Parameters
    ----------
    listed
        All of the machine, by bus address (``CUDA_DEVICE_ORDER=PCI_BUS_ID``).
    chosen
        ``CUDA_VISIBLE_DEVICES``: numbers, or UUIDs or beginnings of them that fit one GPU; None where it is not set.
        What stands behind a word that names no GPU, or one that was named before, is not seen.
    """
    if chosen is None:
        return tuple(listed)
    seen: list[ListedGpu] = []
    for word in (word.strip() for word in chosen.split(",")):
        gpu = _named(listed, word)
        if gpu is None or gpu in seen:
            break
        seen.append(gpu)
    return tuple(seen)


def _named(listed: Sequence[ListedGpu], word: str) -> ListedGpu | None:
    if word.startswith("MIG-"):  # a part of a GPU, which the driver does not list
        return ListedGpu("a MIG instance", word, word)
    if word.isdigit():
        number = int(word)
        return listed[number]._replace(called=word) if number < len(listed) else None
    fitting = [gpu for gpu in listed if word and gpu.uuid.startswith(word)]
    return fitting[0]._replace(called=word) if len(fitting) == 1 else None


def words_of(model: str) -> set[str]:
    """Return the words of a GPU's name in small letters, such as tesla, v100, sxm2."""
    return set(re.split(r"[^a-z0-9]+", model.lower())) - {""}


def is_gpu_name(name: str) -> bool:
    """Whether a pool's name is that of a GPU in the catalogue, or the first word of one: v100, a100_40gb, a100."""
    known = [device.name.split("-") for device in catalogue().values() if device.kind == "gpu"]
    asked = name.split("_")
    return any(words[: len(asked)] == asked for words in known)
