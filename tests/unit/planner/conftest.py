import pytest

from heterps.hardware import Hardware

RENTED = """
[[pool]]
name = "cpu"
device = "c6i-8xlarge"
cap = 200

[[pool]]
name = "gpu"
device = "l4"
cap = 64
serves = false
"""


@pytest.fixture(scope="session")
def rented() -> Hardware:
    return Hardware.from_toml(RENTED)
