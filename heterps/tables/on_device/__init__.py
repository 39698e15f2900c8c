"""Rows of a group in the memory of a device: a hash table and the rules in CUDA. Not run on a GPU yet."""
