"""Forward, backward and cost of every op kind."""
