"""Which spans of time there are: which steps are in which, which are alive, and which end."""
