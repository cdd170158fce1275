"""How peers reach each other: addresses, keys, certificates, frames, handshake and sockets; what they say is theirs."""
