import pytest

from heterps.errors import DataError
from heterps.streaming.lists import parse_list


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["a, b", "c"], ("a", "b", "c")),
        (["8..11"], ("8", "9", "10", "11")),
        (["008..010"], ("008", "009", "010")),
        (["20241230..20250102"], ("20241230", "20241231", "20250101", "20250102")),
        ([""], ()),
    ],
)
def test_lists_as_people_write_them(given: list[str], wanted: tuple[str, ...]) -> None:
    assert parse_list(given) == wanted


@pytest.mark.parametrize("text", ["a..b", "9..3", "20261301..20261302", "0..9999999", "20260301..20260228"])
def test_what_is_no_range_is_named(text: str) -> None:
    with pytest.raises(DataError, match=r"\.\.|calendar"):
        parse_list([text])
