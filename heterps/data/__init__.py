"""Files to batches."""

from heterps.data.adult import adult
from heterps.data.arrays import Arrays, arrays
from heterps.data.bad import BadInput, BadRow, BadRows
from heterps.data.batch import Batch, Column
from heterps.data.criteo import Criteo
from heterps.data.dataset import Dataset, Shuffle, Source
from heterps.data.frames import Table, frame
from heterps.data.generator import Generated, generator
from heterps.data.hashing import cross_ids, hash_bytes, hash_strings, salt_of
from heterps.data.images import Idx, Images, idx, image_folder
from heterps.data.importance import Importance, feature_importance, slots_shuffle
from heterps.data.parquet import Parquet, parquet
from heterps.data.persist import Persisted
from heterps.data.readers import READERS, open_dataset, register_reader
from heterps.data.recipes import Bucket, Categories, Category, Cross, Id, Ids, Match, Number, Recipe, Salted
from heterps.data.rows import Rows
from heterps.data.schema import Field, Schema, dense, label, ragged, sparse, weight
from heterps.data.slots import SlotText, slot_text
from heterps.data.split import Piece, Split
from heterps.data.statistics import Moments, moments, standardised
from heterps.data.text import Text, csv, tsv

__all__ = [
    "READERS",
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
    "Generated",
    "Id",
    "Ids",
    "Idx",
    "Images",
    "Importance",
    "Match",
    "Moments",
    "Number",
    "Parquet",
    "Persisted",
    "Piece",
    "Recipe",
    "Rows",
    "Salted",
    "Schema",
    "Shuffle",
    "SlotText",
    "Source",
    "Split",
    "Table",
    "Text",
    "adult",
    "arrays",
    "cross_ids",
    "csv",
    "dense",
    "feature_importance",
    "frame",
    "generator",
    "hash_bytes",
    "hash_strings",
    "idx",
    "image_folder",
    "label",
    "moments",
    "open_dataset",
    "parquet",
    "ragged",
    "register_reader",
    "salt_of",
    "slot_text",
    "slots_shuffle",
    "sparse",
    "standardised",
    "tsv",
    "weight",
]
