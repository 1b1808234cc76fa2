"""Watching a whole run: windows of the same hooks at some steps, and nothing but a clock of the steps between them."""
