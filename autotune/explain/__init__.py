"""`explain` and `rules`: what the rules say, without a run."""
