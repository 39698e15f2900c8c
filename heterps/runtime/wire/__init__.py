"""Messages between processes: how they lie on a socket, who listens, who calls."""
