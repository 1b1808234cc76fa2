"""The detectors: each states facts about one training script."""
