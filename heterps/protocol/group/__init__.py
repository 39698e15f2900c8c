"""The members of an all-reduce group: who holds what, when a step is complete."""
