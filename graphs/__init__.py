"""Models, one per file, each a function with keyword arguments that returns a Graph."""
