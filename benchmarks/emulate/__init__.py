"""An emulator of ranks that write, and of nodes that share a process, around real agents and a real driver."""
