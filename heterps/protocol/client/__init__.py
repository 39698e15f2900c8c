"""An attempt at a Split as a state machine."""
