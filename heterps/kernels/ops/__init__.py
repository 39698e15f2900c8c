"""Forward, backward and cost of each kind."""
