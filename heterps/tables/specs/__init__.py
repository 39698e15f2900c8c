"""What a table is, as values: rules, entries, accessors, initialisers."""
