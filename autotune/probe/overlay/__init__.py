"""Copy-on-write files in the probed process."""
