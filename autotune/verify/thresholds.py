"""Every number that decides what `verify` plans, measures, compares and says, each with its reason."""

from __future__ import annotations

# The interval of the speedup: estimate.py

LEVEL = 0.95
"""Confidence that the intervals of all looks at one verification hold the speedup."""

LEAST_SPREAD = 0.01
"""Standard deviation, as a share, of runs of the same files on a quiet machine. A few pairs that agree better than that
do so by chance."""

# The number of pairs: schedule.py, pairs.py

FEWEST_PAIRS = 2
"""One pair has no interval."""

FEWEST_RUNS = 2 + 2 * FEWEST_PAIRS
"""A rehearsal of each side, and the fewest pairs."""

LEAST_PAIRS = 3
"""Two pairs show gains above 1.3 only: Student's t of one degree of freedom is 25."""

MOST_PAIRS = 10
"""Planned at first: enough for a difference of 5 % if runs of the same files differ by 3 %."""

FURTHER_PAIRS = 5
"""Added before another look, while the pairs are inconclusive."""

MOST_LOOKS = 5
"""The last look is at 30 pairs, with an interval of 99.8 %: more pairs hardly narrow it."""

# The verdict: verdict.py, summary.py

WIN_MARGIN = 1.02
"""A winner is faster by more than this, by its whole interval: less is not worth a change, and runs of the same files
can differ by it systematically (where memory lies, what the page cache holds)."""

SAME_MARGIN = 1.05
"""No difference: the whole interval lies between 1 / SAME_MARGIN and SAME_MARGIN."""

SAME_SAMPLES = 0.01
"""Samples per step that differ by a smaller share are equal: the last batch of an epoch is shorter."""

# The clock: clocks.py

OTHER_THREADS = 0.05
"""Share of the training thread's CPU time that all other threads of its process may use: the probe has one."""

ASLEEP = 0.03
"""Mean share of a side's windows in which the training thread, or a worker that it waits for, neither ran nor waited
for a CPU. CPU time misses at most that much of a step."""

KEEPS_UP = 0.8
"""Share of the workers' time for a batch that a step may take of the training thread: below it training waits."""

# Other load: disturbances.py, clocks.py

FULL_SHARE = 0.9
"""With a larger share of its CPUs busy, a machine lets training wait for one."""

OTHERS_SHARE = 0.15
"""Share of the CPUs that other work may use while the CPUs are full."""

MORE_THROTTLED = 0.05
"""Share of the time by which a quota may throttle a run longer than the best run of its side. A quota that always
throttles belongs to how the script trains."""

MORE_SLOWED = 0.1
"""The same for heat and the power limit of a GPU."""

MOST_DISTURBED = 0.25
"""Share of the runs that may be disturbed before the CPU demand of the sides matters."""

MORE_CPUS = 1.1
"""A side that keeps so many times the CPUs of the other one busy demands more of them."""

FREE_BYTES_PER_S = 2e6
"""Bytes read from storage that cost nothing: 2 % of the time of a disk that reads 100 MB/s."""

SAME_READS = 0.05
"""Sides that read more than that read the same if they differ by less than this share."""

# The window of a run: schedule.py, epoch_windows.py

WINDOW_S = 1.0
"""Seconds that a run measures. Longer windows narrow the interval little: runs differ as a whole."""

LONG_WINDOW_S = 3.0
"""The same for time-sliced pairs, if the budget allows it."""

LEAST_WINDOW_STEPS, MOST_WINDOW_STEPS = 10, 1000
"""Steps of a window."""

REHEARSED_STEPS = 6
"""Steps of a rehearsal: enough for a step time to plan with."""

MOST_EPOCH_S = 5.0
"""A window holds whole epochs if an epoch is not longer: the start of each epoch costs time, too."""

# The budget: schedule.py, budget_check.py

SLACK = 1.1
"""Longer windows leave that factor of the budget: a pair that does not fit any more is not measured."""

SPARE = 2.0
"""A budget that a message names suffices if runs take so many times as long: on a busy machine they do."""

END_S = 0.5
"""Seconds from the end of a window to the end of the last process."""

# Time slices: schedule.py, pausable.py, time_slicing.py

TURN_S, MOST_TURN_S = 0.04, 1.0
"""Seconds of a slice: long beside the millisecond in which caches are warm again, short beside what a host does to its
guests. Pairs differ by 2 to 4 % in slices of up to 0.1 s, and by 9 to 16 % if the runs follow each other."""

TOGETHER = 0.8
"""Share of the start-up in which both runs go on: neither measures yet."""

WAITS = 50
"""A slice lasts so many waits at least: what is left of one, 1 % on average, costs a paused process nothing."""

MOST_THROTTLED = 0.01
"""Share of the time that a CPU quota may throttle a run: two runs would not share the quota of a period equally."""

MEMORY_SHARE = 0.7
"""Share of the free memory that both runs of a pair may use."""

WAITING = 0.25
"""Share of the time without a CPU from which a run waits for something: a shared machine takes some of it, too."""

OVERLAP = 0.6
"""Share of the shorter window that has to lie in the longer one."""

ROUNDS_ON_CPU = 10
"""Rounds of slices until the next CPU."""

# Losses: losses.py, accumulation_scaling.py

LOSS_LEVEL = 0.99
"""Confidence of the interval of a loss difference: random draws alone make 1 % of the comparisons differ."""

TOLERANCE = 1e-3
"""Relative. Sums of float32 in another order differ by 1e-6 in a step, and training multiplies that; half precision
rounds to 1e-3."""

LEAST_LOSSES = 20
"""Fewer steps do not show a distribution."""

MOST_WIDTH = 0.1
"""Half width of the interval, as a share of the loss, above which it shows nothing."""

MOST_TIMES = 2
"""A loss counts as so many times the largest loss of the unchanged script at most: otherwise the scatter of a loss that
explodes would hide that it differs."""

NUM_BLOCKS = 10
"""Blocks of steps whose means are compared: neighbouring steps are not independent."""

SAME_FACTOR = 0.02
"""Relative difference of two loss factors that differ by random draws alone."""
