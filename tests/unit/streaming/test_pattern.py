import pytest

from heterps.errors import DataError
from heterps.streaming.pattern import NamedPass, PassPattern


@pytest.mark.parametrize(
    ("pattern", "path", "day", "name"),
    [
        ("logs/{day}/{pass}", "logs/20261101/07", "20261101", "07"),
        ("logs/{day}/{pass}/*.csv", "logs/1/2/part-0.csv", "1", "2"),
        ("data_{%Y%m%d%H%M}.tsv", "data_202611010530.tsv", "20261101", "0530"),
        ("{%Y-%m-%d}/{%H}.gz", "2026-11-01/23.gz", "20261101", "23"),
        ("s3://bucket/{%Y}/{%j}/{pass}.parquet", "s3://bucket/2026/305/a.parquet", "2026305", "a"),
        ("clicks-{day}.csv", "clicks-monday.csv", "monday", ""),
    ],
)
def test_a_path_says_day_and_pass(pattern: str, path: str, day: str, name: str) -> None:
    assert PassPattern(pattern).match(path) == NamedPass(day, name)


@pytest.mark.parametrize("path", ["logs/1/2/3.csv", "logs/1/.csv", "other/1/2.csv", "logs/1/2.csv.tmp", "logs/1/2xcsv"])
def test_other_paths_are_no_pass(path: str) -> None:
    assert PassPattern("logs/{day}/{pass}.csv").match(path) is None


def test_a_date_is_digits_of_their_number() -> None:
    assert PassPattern("d{%Y%m%d}").match("d2026111") is None
    assert PassPattern("d{%Y%m%d}").glob == "d*"


@pytest.mark.parametrize("pattern", ["logs/*.csv", "logs/{hour}.csv", "logs/{%Q}.csv", "logs/{}.csv", "l/{day}/{%}"])
def test_what_is_no_pattern_is_refused_with_an_example(pattern: str) -> None:
    with pytest.raises(DataError, match=r"\{day\}"):
        PassPattern(pattern)
