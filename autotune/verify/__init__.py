"""Before and after, measured: the same command on two versions of the files, in fresh processes, in pairs.

`verify` is the plot. `schedule` plans the runs, `scratch` shows a run either version of the files, `runs` and `pairs`
measure them, `estimate`, `verdict` and `losses` judge them by the numbers in `thresholds`.
"""
