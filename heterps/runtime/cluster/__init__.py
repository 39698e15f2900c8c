"""Clusters: starting, finding, checking and measuring them."""
