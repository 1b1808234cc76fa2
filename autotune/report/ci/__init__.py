"""Results of `check` as CI systems show them."""
