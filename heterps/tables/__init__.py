"""Parameters: sparse rows that grow, dense arrays, the rules that change them, snapshots."""
