"""Arrays on a device: xp, streams and the strict stand-in for tests. The only importer of cupy."""
