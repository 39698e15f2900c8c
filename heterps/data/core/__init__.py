"""Datasets, Splits, batches, and what all readers share."""
