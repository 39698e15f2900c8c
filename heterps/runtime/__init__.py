"""Effects: the engines that run a Plan. The only package that imports Dask."""
