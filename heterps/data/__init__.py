"""Files to batches."""

from heterps.data.columnar.json_lines import JsonLines, json_lines
from heterps.data.columnar.parquet_files import Parquet, parquet
from heterps.data.columnar.tables_in_memory import Table, frame
from heterps.data.core.bad import BadBook, BadInput, BadRow, BadRows
from heterps.data.core.batch import Batch, Column
from heterps.data.core.batch_buffers import RowBuffers
from heterps.data.core.data_form import DataForm
from heterps.data.core.dataset import Dataset, Shuffle, Source
from heterps.data.core.files import expand, size_of
from heterps.data.core.formats import READERS, open_dataset, register_reader
from heterps.data.core.labels import Labels
from heterps.data.core.persist import Persisted
from heterps.data.core.recipes import Bucket, Categories, Category, Cross, Id, Ids, Match, Number, Recipe, Salted
from heterps.data.core.schema import Field, Schema, dense, label, ragged, sparse, weight
from heterps.data.core.split import Piece, Split
from heterps.data.core.value_hash import cross_ids, hash_bytes, hash_strings, salt_of
from heterps.data.sources.adult import adult
from heterps.data.sources.arrays import Arrays, arrays
from heterps.data.sources.chunked import Chunked
from heterps.data.sources.generator import Generated, generator
from heterps.data.sources.images import Idx, Images, idx, image_folder
from heterps.data.study.importance import Importance, feature_importance, slots_shuffle
from heterps.data.study.statistics import Moments, moments, standardised
from heterps.data.text.criteo import Criteo
from heterps.data.text.delimited_text import Text, csv, tsv
from heterps.data.text.libsvm import LibSvm, libsvm
from heterps.data.text.slot_text import SlotText, slot_text

__all__ = [
    "READERS",
    "Arrays",
    "BadBook",
    "BadInput",
    "BadRow",
    "BadRows",
    "Batch",
    "Bucket",
    "Categories",
    "Category",
    "Chunked",
    "Column",
    "Criteo",
    "Cross",
    "DataForm",
    "Dataset",
    "Field",
    "Generated",
    "Id",
    "Ids",
    "Idx",
    "Images",
    "Importance",
    "JsonLines",
    "Labels",
    "LibSvm",
    "Match",
    "Moments",
    "Number",
    "Parquet",
    "Persisted",
    "Piece",
    "Recipe",
    "RowBuffers",
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
    "expand",
    "feature_importance",
    "frame",
    "generator",
    "hash_bytes",
    "hash_strings",
    "idx",
    "image_folder",
    "json_lines",
    "label",
    "libsvm",
    "moments",
    "open_dataset",
    "parquet",
    "ragged",
    "register_reader",
    "salt_of",
    "size_of",
    "slot_text",
    "slots_shuffle",
    "sparse",
    "standardised",
    "tsv",
    "weight",
]
