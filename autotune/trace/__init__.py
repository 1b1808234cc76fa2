"""Profiler traces: reading them into the Recording that a live profile fills, and writing one of a run."""
