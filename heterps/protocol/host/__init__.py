"""A shard host as a state machine."""
