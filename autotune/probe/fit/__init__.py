"""One training step of the script without memory: fake tensors, as CUDA would allocate them."""
