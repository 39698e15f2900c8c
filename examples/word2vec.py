"""word2vec on the head of text8: do words get neighbours that keep the same company in text the model never saw.

    python examples/word2vec.py text8.split.head

Any file of lower-case words will do; text8 is at http://mattmahoney.net/dc/text8.zip (the first few megabytes suffice).
The first nine tenths are trained on. In the last tenth the company that frequent words keep is counted, and a word's
nearest neighbours by vector are judged by how alike their company is there. Training once more on the same words in
random order shows what the figure is worth.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for graphs/, beside this folder

import numpy as np

import heterps as hps
from graphs.word2vec import word2vec

DIM = 48
WINDOW = 4
NEGATIVES = 5
LEAST_COUNT = 8
KEEP = 1e-3  # words more frequent than this are thinned out
BATCH_SIZE = 2048
EPOCHS = 2
RULE = hps.ElementAdaGrad(lr=0.1)
JUDGED, NEIGHBOURS = 300, 10
SEED = 0
ENGINE = "auto"


def numbered(text: list[str]) -> tuple[list[str], np.ndarray]:
    """Words by falling frequency, and the text as their numbers; rare words are left out."""
    words, codes, counts = np.unique(text, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    kept = order[counts[order] >= LEAST_COUNT]
    number = np.full(len(words), -1)
    number[kept] = np.arange(len(kept))
    codes = number[codes]
    return [str(words[i]) for i in kept], codes[codes >= 0]


def pairs(codes: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Each word with the words around it, near ones more often, frequent ones thinned out."""
    share = np.bincount(codes) / len(codes)
    codes = codes[rng.random(len(codes)) < np.sqrt(KEEP / np.maximum(share, KEEP))[codes]]
    left, right = [], []
    for distance in range(1, WINDOW + 1):
        chosen = rng.random(len(codes) - distance) < (WINDOW + 1 - distance) / WINDOW
        a, b = codes[:-distance][chosen], codes[distance:][chosen]
        left += [a, b]
        right += [b, a]
    word, context = np.concatenate(left), np.concatenate(right)
    order = rng.permutation(len(word))
    return {"word": word[order].astype(np.uint64), "context": context[order].astype(np.uint64)}


def trained(codes: np.ndarray, size: int) -> np.ndarray:
    """Vectors of all words after training on a text."""
    weights = np.bincount(codes, minlength=size) ** 0.75
    plan = hps.Plan.fused(word2vec(size, DIM, NEGATIVES, weights), batch_size=BATCH_SIZE)
    with hps.launch(plan, sparse=RULE, seed=SEED, engine=ENGINE) as session:
        session.fit(hps.arrays(pairs(codes, np.random.default_rng(SEED))), epochs=EPOCHS)
        vectors = session.predict(hps.arrays({"word": np.arange(size, dtype=np.uint64)}), fetch="vector")
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def company(codes: np.ndarray, size: int) -> np.ndarray:
    """For each of the judged words how much more often than by chance each word stands near it, as unit vectors."""
    counts = np.zeros((JUDGED, size))
    for distance in range(1, WINDOW + 1):
        for a, b in ((codes[:-distance], codes[distance:]), (codes[distance:], codes[:-distance])):
            np.add.at(counts, (a[a < JUDGED], b[a < JUDGED]), 1)
    expected = counts.sum(1, keepdims=True) * counts.sum(0) / counts.sum()
    lift = np.log(np.maximum(counts, 1e-9) / np.maximum(expected, 1e-9)).clip(0)
    return lift / np.maximum(np.linalg.norm(lift, axis=1, keepdims=True), 1e-9)


def neighbours(vectors: np.ndarray) -> np.ndarray:
    """The nearest others of each judged word, among the judged words."""
    near = vectors[:JUDGED] @ vectors[:JUDGED].T
    np.fill_diagonal(near, -np.inf)
    return np.argsort(-near, axis=1)[:, :NEIGHBOURS]


def likeness(vectors: np.ndarray, unseen: np.ndarray) -> float:
    """Mean cosine between the company of words and that of their neighbours."""
    return float(np.mean(np.einsum("id,ikd->ik", unseen, unseen[neighbours(vectors)])))


def run(path: Path) -> tuple[float, float]:
    words, codes = numbered(path.read_text().split())
    seen, unseen = codes[: len(codes) * 9 // 10], company(codes[len(codes) * 9 // 10 :], len(words))
    print(f"{len(codes):,} words of {len(words):,} kinds")
    vectors = trained(seen, len(words))
    for word in ("three", "he", "war", "language", "state"):
        if word in words[:JUDGED]:
            print(f"{word}: {', '.join(words[i] for i in neighbours(vectors)[words.index(word)][:6])}")
    shuffled = trained(np.random.default_rng(SEED).permutation(seen), len(words))
    return likeness(vectors, unseen), likeness(shuffled, unseen)


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    found, control = run(Path(sys.argv[1]))
    print(f"\nlikeness of neighbours in unseen text: {found:.4f}, after training on shuffled text {control:.4f}")


if __name__ == "__main__":
    main()
