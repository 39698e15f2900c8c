"""Hardware as values: devices, hosts, pools, links; a catalogue; TOML; measuring this machine."""

from heterps.hardware.catalogue import catalogue
from heterps.hardware.values import Device, Hardware, Host, Link, Pool

__all__ = ["Device", "Hardware", "Host", "Link", "Pool", "catalogue"]
