"""One module per verb: the pipeline, readable from top to bottom. `tune` has a package of its own."""
