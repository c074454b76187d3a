"""Scripts that train players, to be read, run from a checkout and changed."""
