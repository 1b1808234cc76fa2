"""A campaign of attacks on autotune: `python -m benchmarks.attacks` prints how many were tried and how many succeeded.

Each module of this folder is one area. It has `TITLE` (a line of the table) and `cases(scratch)`, which tries its
attacks below the empty folder `scratch` and yields a `Case` for each. Everything that is attacked is made there:
nothing outside `scratch` is written, no address but the loopback one is contacted.
"""
