"""The in-transit pipeline: fold each committed step where it lies, reduce, publish."""
