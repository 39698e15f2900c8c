"""Graph to Layers: labels, legality, bytes across each cut."""
