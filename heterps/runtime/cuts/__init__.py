"""When cuts are made, where they lie, what a saved model is."""
