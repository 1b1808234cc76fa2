"""`diagnose`: from a command, or a stored run, to a report and its patch."""
