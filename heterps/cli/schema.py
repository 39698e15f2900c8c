"""``heterps schema``: what is inferred about the columns of data, and why."""

from __future__ import annotations

import click

from heterps.cli._data import Said, opened_as, schema_options
from heterps.data import READERS, Dataset
from heterps.data.study.infer_schema import Study
from heterps.data.study.schema_file import schema_text, study_text
from heterps.runtime.batch.columns import describe
from heterps.screen import Screen
from heterps.writing import check_target, write_whole

__all__ = ["command"]

_EPILOG = """\b
Examples:
  heterps schema clicks.csv
  heterps schema clicks.csv --label clicked --categorical zip --out clicks.toml
  heterps train wide_deep --data clicks.csv --schema clicks.toml
"""


@click.command("schema", short_help="Show what columns of data are taken for, and why.", epilog=_EPILOG)
@click.argument("data", nargs=-1, required=True, metavar="DATA...")
@click.option("--format", "kind", default="auto", show_default=True, help=f"auto, {', '.join(sorted(READERS))}.")
@schema_options
@click.option("--out", metavar="FILE", help="Write the schema as TOML, to be changed and given to `heterps train`.")
def command(
    data: tuple[str, ...],
    kind: str,
    said: Said,
    out: str | None,
) -> None:
    """Look at some rows of DATA and show what each column is taken for, and why: nothing is trained."""
    if out:
        check_target(out)
    dataset = opened_as(data, kind, said)
    console = Screen()
    if dataset.study is not None and dataset.study.columns:
        _show(console, dataset.study)
    for remark in dataset.study.remarks if dataset.study else ():
        console.print(remark, highlight=False, soft_wrap=True)
    made = ", ".join(map(describe, dataset.schema))
    console.print(f"batches have {made or 'no columns'}", highlight=False, soft_wrap=True)
    if not any(column.kind == "label" for column in dataset.schema):
        lacking = "no column is called as labels are: say which one is to be predicted, --label NAME"
        console.print(lacking, highlight=False, soft_wrap=True)
    if out:
        write_whole(out, _text(dataset))
        console.print(f"written to {out}", highlight=False, soft_wrap=True)


def _text(dataset: Dataset) -> str:
    study = dataset.study
    return study_text(study) if study is not None and study.columns else schema_text(dataset.schema)


def _show(console: Screen, study: Study) -> None:
    headings = ("column", "taken for", "different", "missing", "least", "largest", "why")
    rows = []
    for one in study.columns:
        look = one.look
        missing = f"{100 * look.missing / look.rows:.1f} %" if look.missing else ""
        rows.append((look.name or "(no name)", one.role, f"{look.distinct:,}", missing, look.low, look.high, one.why))
    looked = max((one.look.rows for one in study.columns), default=0)
    console.table(f"{looked:,} rows looked at", headings, rows, right=("different", "missing"), plain=True)
