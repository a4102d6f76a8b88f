"""Which TCP ports are free to listen on."""

from __future__ import annotations

import errno
import random
import socket

# Below the usual range of ephemeral ports (from 32768): there a client that reconnects while its server is
# down could be given the server's port as its own and keep it from coming back.
OWN_PORTS = range(20_000, 30_000)


def is_free(host: str, port: int) -> bool:
    """Return whether nobody listens on `host` and `port`. Raises OSError when we could not anyway."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
            probe.listen(1)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
    return True


def free_port() -> int:
    """Return a port of 127.0.0.1 that is free at this moment."""
    return next(port for port in random.sample(OWN_PORTS, len(OWN_PORTS)) if is_free("127.0.0.1", port))


def refusal(host: str, port: int) -> str:
    """Return why csbot cannot listen on CSBOT_BIND and CSBOT_PORT, in one line; empty when it can."""
    try:
        if is_free(host, port):
            return ""
    except OSError as error:
        return f"CSBOT_BIND, CSBOT_PORT: cannot listen on {host} and {port} ({error.strerror})"
    return f"CSBOT_PORT: {port} on {host} is in use; expected a free port"
