"""autotune: where a PyTorch training run spends its time, what would fix it and how much that gains."""

__version__ = "0.2.0"
