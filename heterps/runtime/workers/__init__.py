"""What lives on workers: attempts, shard hosts, stages, and the Dask actors around them."""
