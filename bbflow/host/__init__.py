"""What a process asks of its own machine: files that appear whole, locks, memory, and what is ours in a directory."""
