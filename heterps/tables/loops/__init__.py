"""The compiled loops over ids and rows."""
