"""A graph compiled into calls over buffers."""
