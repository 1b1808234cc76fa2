"""What the probe observes in torch and in the trainer frameworks."""
