"""`diagnose --pid`: what bounds a process that already runs, in tiers, without a restart."""
