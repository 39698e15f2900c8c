"""Scoring with an exported model: no Dask, nothing compiled, rows mapped from disk and shared by processes."""
