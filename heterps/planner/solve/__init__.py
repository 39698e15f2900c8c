"""From a problem to a placement, and the proof."""
