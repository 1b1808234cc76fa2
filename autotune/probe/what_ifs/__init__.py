"""Measurements after the window, in the same process."""
