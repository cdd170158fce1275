"""The fold: which steps are folded next, where, and the tasks that take them into states."""
