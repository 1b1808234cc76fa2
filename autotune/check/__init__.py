"""`check`: from files to findings, without a run."""
