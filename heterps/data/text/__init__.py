"""Lines of text to rows."""
