"""Arrow columns to rows."""
