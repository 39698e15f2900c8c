"""A run: the loop, what carries instructions out, the engines."""
