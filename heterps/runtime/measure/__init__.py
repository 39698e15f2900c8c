"""What `heterps profile` does: short runs that yield a Profile."""
