"""What a training script is: its loops and loaders, its steps, and the calls that its settings go to."""
