"""Reports as JSON, schema 1."""
