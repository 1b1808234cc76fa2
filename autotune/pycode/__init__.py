"""Reads Python code: names, values, where they are written, and which statements a run reaches. Runs nothing."""
