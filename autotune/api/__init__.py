"""One module per verb: the pipeline, readable from top to bottom."""
