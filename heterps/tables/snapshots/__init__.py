"""Rows on disk: writing, reading, comparing."""
