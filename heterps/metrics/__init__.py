"""Metrics that merge exactly across workers."""
