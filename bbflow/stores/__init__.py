"""Where files come from and go to: local and remote storage by one interface."""
