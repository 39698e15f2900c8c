"""Files to batches.

Names are imported when they are first used: every worker imports this package, and reads one kind of files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from heterps.later import names_later

if TYPE_CHECKING:
    from heterps.data.columnar.json_lines import JsonLines as JsonLines, json_lines as json_lines
    from heterps.data.columnar.parquet_files import Parquet as Parquet, parquet as parquet
    from heterps.data.columnar.tables_in_memory import Table as Table, frame as frame
    from heterps.data.core.bad import BadBook as BadBook, BadInput as BadInput, BadRow as BadRow, BadRows as BadRows
    from heterps.data.core.batch import Batch as Batch, Column as Column
    from heterps.data.core.batch_buffers import RowBuffers as RowBuffers
    from heterps.data.core.data_form import DataForm as DataForm
    from heterps.data.core.dataset import Dataset as Dataset, Shuffle as Shuffle, Source as Source
    from heterps.data.core.files import expand as expand, size_of as size_of
    from heterps.data.core.formats import (
        READERS as READERS,
        open_dataset as open_dataset,
        register_reader as register_reader,
    )
    from heterps.data.core.labels import Labels as Labels
    from heterps.data.core.persist import Persisted as Persisted
    from heterps.data.core.recipes import (
        Bucket as Bucket,
        Categories as Categories,
        Category as Category,
        Cross as Cross,
        Id as Id,
        Ids as Ids,
        Match as Match,
        Number as Number,
        Recipe as Recipe,
        Salted as Salted,
    )
    from heterps.data.core.schema import (
        Field as Field,
        Schema as Schema,
        dense as dense,
        label as label,
        ragged as ragged,
        sparse as sparse,
        weight as weight,
    )
    from heterps.data.core.split import Piece as Piece, Split as Split
    from heterps.data.core.value_hash import (
        cross_ids as cross_ids,
        hash_bytes as hash_bytes,
        hash_cell as hash_cell,
        hash_strings as hash_strings,
        salt_of as salt_of,
    )
    from heterps.data.sources.adult import adult as adult
    from heterps.data.sources.arrays import Arrays as Arrays, arrays as arrays
    from heterps.data.sources.chunked import Chunked as Chunked
    from heterps.data.sources.generator import Generated as Generated, generator as generator
    from heterps.data.sources.images import Idx as Idx, Images as Images, idx as idx, image_folder as image_folder
    from heterps.data.study.importance import (
        Importance as Importance,
        feature_importance as feature_importance,
        slots_shuffle as slots_shuffle,
    )
    from heterps.data.study.statistics import Moments as Moments, moments as moments, standardised as standardised
    from heterps.data.text.criteo import Criteo as Criteo
    from heterps.data.text.delimited_text import Text as Text, csv as csv, tsv as tsv
    from heterps.data.text.libsvm import LibSvm as LibSvm, libsvm as libsvm
    from heterps.data.text.slot_text import SlotText as SlotText, slot_text as slot_text

_HOMES = {
    "columnar.json_lines": "JsonLines json_lines",
    "columnar.parquet_files": "Parquet parquet",
    "columnar.tables_in_memory": "Table frame",
    "core.bad": "BadBook BadInput BadRow BadRows",
    "core.batch": "Batch Column",
    "core.batch_buffers": "RowBuffers",
    "core.data_form": "DataForm",
    "core.dataset": "Dataset Shuffle Source",
    "core.files": "expand size_of",
    "core.formats": "READERS open_dataset register_reader",
    "core.labels": "Labels",
    "core.persist": "Persisted",
    "core.recipes": "Bucket Categories Category Cross Id Ids Match Number Recipe Salted",
    "core.schema": "Field Schema dense label ragged sparse weight",
    "core.split": "Piece Split",
    "core.value_hash": "cross_ids hash_bytes hash_cell hash_strings salt_of",
    "sources.adult": "adult",
    "sources.arrays": "Arrays arrays",
    "sources.chunked": "Chunked",
    "sources.generator": "Generated generator",
    "sources.images": "Idx Images idx image_folder",
    "study.importance": "Importance feature_importance slots_shuffle",
    "study.statistics": "Moments moments standardised",
    "text.criteo": "Criteo",
    "text.delimited_text": "Text csv tsv",
    "text.libsvm": "LibSvm libsvm",
    "text.slot_text": "SlotText slot_text",
}
_HOME = {name: f"heterps.data.{home}" for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_HOME)
__getattr__ = names_later(__name__, _HOME, globals())


def __dir__() -> list[str]:
    return list(__all__)
