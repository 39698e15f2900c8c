import dask
import pytest

from heterps.errors import ClusterError
from heterps.runtime.config import settings


def test_the_shipped_defaults_are_read() -> None:
    found = settings()
    assert found.retries >= 0
    assert found.switch_interval_s == pytest.approx(5e-4)
    assert found.blas_threads is None
    assert not found.trusted_network


def test_both_spellings_of_a_key_and_units_are_understood() -> None:
    with dask.config.set({"heterps.timeouts.call": "2 minutes", "heterps.worker.blas_threads": 3}):
        assert settings().call_s == 120
        assert settings().blas_threads == 3


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("heterps.retires", 2, r"heterps\.retires is not known; known: prefetch"),
        ("heterps.timeouts.cal", "1s", r"heterps\.timeouts\.cal is not known"),
        ("heterps.retries", -1, r"heterps\.retries is -1, must be a whole number of at least 0"),
        ("heterps.retries", True, r"heterps\.retries is True"),
        ("heterps.retries", "many", r"heterps\.retries is 'many'"),
        ("heterps.timeouts.call", "soon", r"heterps\.timeouts\.call is 'soon', must be a duration"),
        ("heterps.timeouts.call", "-1s", r"must be a duration"),
        ("heterps.timeouts.call", "0s", r"must be a duration of at least 0.001 s"),
        ("heterps.timeouts", 3, r"heterps\.timeouts is 3, must have keys"),
    ],
)
def test_a_wrong_setting_is_named(key: str, value: object, message: str) -> None:
    with dask.config.set({key: value}), pytest.raises(ClusterError, match=message):
        settings()


def test_what_is_changed_is_seen_at_once_and_what_is_not_is_not_read_again() -> None:
    before = settings()
    assert settings() is before
    with dask.config.set({"heterps.prefetch": before.prefetch + 1}):
        assert settings().prefetch == before.prefetch + 1
        with dask.config.set({"heterps.worker": {**dask.config.get("heterps.worker"), "warm": not before.warm}}):
            assert settings().warm is not before.warm
            assert settings().prefetch == before.prefetch + 1
    assert settings() == before
