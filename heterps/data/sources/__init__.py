"""Rows from elsewhere: memory, programs, generators, images."""
