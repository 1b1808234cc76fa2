"""Before and after, measured: the same command on two versions of the files, in fresh processes, in turns.

`schedule` says which starts to make, `mirror` shows the command either version of the files, and `estimate`,
`verdict` and `losses` say what the starts tell.
"""
