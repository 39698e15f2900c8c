"""Files to batches."""

from heterps.data.adult import adult
from heterps.data.arrays import Arrays, arrays
from heterps.data.bad import BadInput, BadRow, BadRows
from heterps.data.batch import Batch, Column
from heterps.data.criteo import Criteo
from heterps.data.dataset import Dataset, Shuffle, Source
from heterps.data.hashing import cross_ids, hash_bytes, hash_strings, salt_of
from heterps.data.recipes import Bucket, Categories, Category, Cross, Id, Match, Number, Recipe
from heterps.data.rows import Rows
from heterps.data.schema import Field, Schema, dense, label, ragged, sparse, weight
from heterps.data.split import Piece, Split
from heterps.data.text import Text, csv, tsv

__all__ = [
    "Arrays",
    "BadInput",
    "BadRow",
    "BadRows",
    "Batch",
    "Bucket",
    "Categories",
    "Category",
    "Column",
    "Criteo",
    "Cross",
    "Dataset",
    "Field",
    "Id",
    "Match",
    "Number",
    "Piece",
    "Recipe",
    "Rows",
    "Schema",
    "Shuffle",
    "Source",
    "Split",
    "Text",
    "adult",
    "arrays",
    "cross_ids",
    "csv",
    "dense",
    "hash_bytes",
    "hash_strings",
    "label",
    "ragged",
    "salt_of",
    "sparse",
    "tsv",
    "weight",
]
