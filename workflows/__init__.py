"""Example workflows, to try bbflow on something that computes."""
