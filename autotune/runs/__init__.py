"""The verb `runs`: one line for each job that was diagnosed below some folders."""
