"""The search: what can be set in this script, trials of it in fresh processes, and what wins."""
