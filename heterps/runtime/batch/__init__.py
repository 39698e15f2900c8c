"""What happens to one batch: columns, ids, rows, buffers, the program."""
