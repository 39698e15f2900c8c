"""Decisions: which Layers form a Stage, on which pool, with how many workers, and the proof."""
