"""MovieLens 100k as it came: trained in the order of time, each pass predicted before it is trained on.

    python examples/online.py FOLDER [OUT]

FOLDER holds u.data, u.item and u.user of https://files.grouplens.org/datasets/movielens/ml-100k.zip. The ratings of
seven months are written as passes of 2,500, by month; the label is whether somebody gave four stars or more. The stream
ends each month as a day: rows are aged, a base is saved. OUT then has the model, the log and its picture, passes.svg.
Kill it and start it again: it goes on where it was.
"""

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for graphs/ beside this folder

import heterps as hps
from graphs.deepfm import deepfm
from heterps.streaming import read_log

PASS_ROWS = 2500
DIM = 8
HIDDEN = (32, 16)
BATCH_SIZE = 128
SPARSE = hps.ElementAdaGrad(lr=0.1)
DENSE = hps.Adam(lr=0.002)
METRICS = ["auc", "logloss", "copc", "gauc:user"]
ALARM = "copc>1.2"  # far fewer likes were expected than there are
ENGINE = "auto"
WHERE = "https://files.grouplens.org/datasets/movielens/ml-100k.zip"
COLUMNS = ("user", "item", "age", "sex", "occupation", "year", "genre", "liked")


def write_passes(source: Path, target: Path) -> str:
    """Write the ratings in their order as CSV files by month; return the pattern of their names."""
    missing = [name for name in ("u.data", "u.item", "u.user") if not (source / name).exists()]
    if missing:
        sys.exit(f"{source} has no {missing[0]}: unpack {WHERE} there")
    users = {user: (f"{int(age) // 10}0s", sex, job) for user, age, sex, job, _ in _fields(source / "u.user")}
    films = {film[0]: (film[2][-4:], _genre(film[-19:])) for film in _fields(source / "u.item")}
    ratings = sorted(
        (line.split("\t") for line in (source / "u.data").read_text().splitlines()), key=lambda r: int(r[3])
    )
    for number, begin in enumerate(range(0, len(ratings), PASS_ROWS)):
        part = ratings[begin : begin + PASS_ROWS]
        month = f"{datetime.fromtimestamp(int(part[0][3]), UTC):%Y%m}"
        rows = [(u, i, *users[u], *films[i], str(int(int(stars) >= 4))) for u, i, stars, _ in part]
        path = target / month / f"{number:03d}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(",".join(row) for row in (COLUMNS, *rows)) + "\n")
    return f"{target}/{{day}}/{{pass}}.csv"


def _fields(path: Path) -> list[list[str]]:
    return [line.split("|") for line in path.read_text(encoding="latin-1").splitlines()]


def _genre(flags: list[str]) -> str:
    """A film's genres as one value: most have one or two."""
    return "".join(flags).lstrip("0") or "none"


def run(pattern: str, out: Path) -> float:
    """Stream all passes; return the AUC of all predictions, each made before its rating was known."""
    categories = [name for name in COLUMNS if name != "liked"]
    graph = deepfm(slots=len(categories), dense=0, dim=DIM, hidden=HIDDEN)
    plan = hps.Plan.fused(graph, batch_size=BATCH_SIZE)
    with hps.launch(plan, engine=ENGINE, mode="sync", sparse=SPARSE, dense=DENSE) as session:
        for report in hps.stream(
            session,
            pattern,
            out,
            schema={"label": "liked", "categorical": categories},
            metrics=METRICS,
            checkpoint_every=4,
            alarms=[ALARM],
        ):
            print(report)
    log = read_log(out).to_pylist()
    return [row["total"] for row in log if row["measure"] == "auc"][-1]


def main(source: Path, out: Path) -> None:
    pattern = write_passes(source, out / "passes")
    print(f"AUC of all predictions {run(pattern, out / 'model'):.4f}; see {out / 'model' / 'passes.svg'}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) == 3 else tempfile.mkdtemp(prefix="online-")))
