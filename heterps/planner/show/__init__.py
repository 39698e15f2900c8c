"""Plans as text, pictures and pages."""
