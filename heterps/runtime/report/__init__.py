"""What users are told: progress, profiles, output files."""
