"""Looking at data: schemas, statistics, importance."""
