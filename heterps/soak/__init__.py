"""A model whose result can be counted, trained while its processes are killed and frozen: ``heterps soak``."""
