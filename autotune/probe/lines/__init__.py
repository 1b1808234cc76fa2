"""Where the time of a step goes by line and module: live steps after the window, sampled finely and then profiled."""
