"""Side effects that are not files: programs, the network, the hub and trackers."""
