"""The census income data of the Wide & Deep tutorial, bundled (see ``bundled/ATTRIBUTION.md``)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from heterps.data.core.recipes import Bucket, Category, Cross, Match, Number, Recipe
from heterps.data.core.schema import Schema, dense, label, sparse
from heterps.data.text.delimited_text import Text
from heterps.errors import DataError

__all__ = ["ADULT_COLUMNS", "adult", "adult_schema"]

ADULT_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship", "race",
    "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income",
)  # fmt: skip

_CATEGORIES = (
    "workclass",
    "education",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "native_country",
)
_AGE = Bucket("age", (18, 21, 24, 27, 30, 33, 36, 40, 45, 50, 55, 60, 65, 75))
_COARSE_AGE = Bucket("age", (25, 30, 35, 45, 55, 65))
_HOURS = Bucket("hours_per_week", (15, 25, 35, 40, 41, 46, 51, 61))
_GAIN = Bucket("capital_gain", (1, 2000, 3100, 4400, 4700, 5100, 6800, 7300, 10000, 20000))
_LOSS = Bucket("capital_loss", (1, 1500, 1600, 1820, 1860, 1880, 1950, 1980, 2100, 2300, 2500))
_YEARS = Bucket("education_num", (8, 9, 10, 11, 12, 13, 14, 15, 16))


def _crosses() -> tuple[Recipe, ...]:
    education, occupation = Category("education"), Category("occupation")
    marital, relationship = Category("marital_status"), Category("relationship")
    return (
        Cross((education, occupation)),
        Cross((_COARSE_AGE, education)),
        Cross((_COARSE_AGE, relationship)),
        Cross((marital, _HOURS)),
        Cross((Category("workclass"), occupation)),
        Cross((relationship, _YEARS)),
    )


def adult_schema() -> Schema:
    """Return ids [n, 19] (8 categories, 5 bucketed numbers, 6 crosses), x [n, 5] (log and standardised) and y."""
    return Schema.of(
        sparse("ids", *(Category(name) for name in _CATEGORIES), _AGE, _HOURS, _GAIN, _LOSS, _YEARS, *_crosses()),
        dense(
            "x",
            Number("age", mean=38.58, std=13.64),
            Number("education_num", mean=10.08, std=2.573),
            Number("capital_gain", log=True, mean=0.7346, std=2.455),
            Number("capital_loss", log=True, mean=0.3551, std=1.584),
            Number("hours_per_week", mean=40.44, std=12.35),
        ),
        label("y", Match("income", ">50K")),
    )


def adult(part: Literal["train", "test"] = "train") -> Text:
    """Return the 32,561 training or 16,281 test rows; 24 % of labels are 1.

    Examples
    --------
    >>> adult("train").schema.names
    ('ids', 'x', 'y')
    """
    if part not in ("train", "test"):
        raise DataError(f"adult has the parts train and test, not {part!r}")
    path = Path(__file__).parent / "bundled" / f"adult-{part}.csv.gz"
    return Text(paths=(str(path),), columns=ADULT_COLUMNS, fields=adult_schema(), header=True)
