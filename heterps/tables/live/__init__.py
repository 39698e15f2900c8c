"""Rows in memory while training: groups, partitions, the shard."""
