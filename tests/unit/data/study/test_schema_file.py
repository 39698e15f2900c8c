"""Schemas as TOML: whole, commented, and mistakes named with their place."""

from pathlib import Path

import pytest

from heterps.data import Categories, Category, Cross, Field, Id, Number, Schema, csv, dense, label, ragged, sparse
from heterps.data.sources.adult import adult_schema
from heterps.data.study.schema_file import read_schema, schema_text, study_text
from heterps.errors import DataError

ODD = Schema.of(
    sparse("the ids", Category('a "quoted" name'), Cross((Category("ä"), Id("b", missing=3)))),
    ragged("tags", Categories("tags", separator=";")),
    dense("x", Number("n", log=True, mean=-1.5e-7, missing=0.0)),
    label("y", Number("y")),
    Field("pixels", "dense", (2, 3)),
)


@pytest.mark.parametrize("schema", [adult_schema(), ODD], ids=["adult", "odd"])
def test_schemas_come_back_as_they_were(schema: Schema, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(schema_text(schema))
    assert read_schema(tmp_path / "a.toml") == schema


def test_reasons_stand_beside(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",city,age,y\n" + "".join(f"{i},c{i % 2},{20 + i},1\n" for i in range(9)))
    data = csv(tmp_path / "a.csv")
    assert data.study is not None
    text = study_text(data.study)
    assert '{ kind = "category", source = "city" },  # text; 2 different in 9 rows' in text
    assert '# ignored: "" (it has no name: the index of a frame)' in text
    (tmp_path / "a.toml").write_text(text)
    assert read_schema(tmp_path / "a.toml") == data.schema


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", r"a\.toml: it names no columns"),
        ("[x", r"a\.toml: not TOML"),
        ("[x]\nkind = 'dens'", r"a\.toml: x\.kind is \"dens\", expected one of dense, sparse"),
        ("[x]\nof = []", r"a\.toml: x lacks \"kind\""),
        ("[x]\nkind = 'dense'\nfrom = []", r"x has \"from\", which is not known"),
        (
            "[x]\nkind = 'dense'\nof = [{kind = 'nmber', source = 'a'}]",
            r"x\.of\[0\]\.kind is \"nmber\", expected",
        ),
        (
            "[x]\nkind = 'dense'\nof = [{kind = 'number', source = 'a', std = 0.0}]",
            r"x\.of\[0\]: Number\('a'\): std",
        ),
        ("[x]\nkind = 'dense'\nof = [{kind = 'number', source = 5}]", r"x\.of\[0\]\.source is 5, expected text"),
        ("[x]\nkind = 'dense'\nof = [{kind = 'number', sourc = 'a'}]", r"\"sourc\".*did you mean \"source\""),
        ("[x]\nkind = 'dense'\nof = [{kind = 'category', source = 'a'}]", r"x: column 'x' is dense"),
    ],
    ids=range(10),
)
def test_mistakes_are_named_with_their_place(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(DataError, match=says):
        read_schema(tmp_path / "a.toml")
