"""Hardware as values: devices, hosts, pools, links, products; a catalogue; TOML; measuring this machine."""

from heterps.hardware.catalogue import catalogue
from heterps.hardware.values import Device, Hardware, Host, Link, Pool, Product

__all__ = ["Device", "Hardware", "Host", "Link", "Pool", "Product", "catalogue"]
