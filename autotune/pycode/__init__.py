"""A library that reads Python code: names, origins of values, dicts, mutations, reachability. It runs nothing."""
