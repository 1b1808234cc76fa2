"""`apply` and `undo`: from a patch to the files, and back."""
