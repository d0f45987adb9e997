"""Somebody in between: proofs cannot be passed on to where they would open a door."""

import contextlib
import socket
import ssl
import threading

import pytest

from flota import Client
from flota.errors import AuthenticationFailed
from flota.testing import LocalCluster


@contextlib.contextmanager
def relay(listener, port):
    """Passes the bytes of one connection on to a server's TCP port, and back."""
    listener.settimeout(10)

    def carry(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def serve():
        with listener.accept()[0] as client, socket.create_connection(("127.0.0.1", port)) as server:
            back = threading.Thread(target=carry, args=(server, client))
            back.start()
            carry(client, server)
            back.join(10)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        thread.join(20)
        assert not thread.is_alive()


def test_a_local_user_cannot_pass_proofs_on_to_a_server_s_port():
    """The server has no local sockets, so that its name among them is free for anybody on the host."""
    with LocalCluster(arguments=["--no-local-sockets"]) as cluster:
        port = int(cluster.endpoints[0].rpartition(":")[2])
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as impostor:
            impostor.bind(f"\0flota/{cluster.endpoints[0]}")
            impostor.listen()
            with relay(impostor, port), pytest.raises(AuthenticationFailed):
                cluster.client(timeout=5)


def test_nobody_in_between_can_take_tls_off(certs):
    """A client that does without TLS is not served by passing its bytes through a TLS connection of one's own."""
    context = ssl.create_default_context(cafile=f"{certs}/authority.pem")
    context.load_cert_chain(f"{certs}/client.pem", f"{certs}/client.key")
    with LocalCluster(arguments=["--certs", str(certs)]) as cluster, socket.create_server(("127.0.0.1", 0)) as impostor:
        impostor.settimeout(10)
        port = int(cluster.endpoints[0].rpartition(":")[2])
        seen = []

        def serve():
            with (
                impostor.accept()[0] as client,
                socket.create_connection(("127.0.0.1", port), 10) as plain,
                context.wrap_socket(plain, server_hostname="127.0.0.1") as server,
            ):
                client.settimeout(10)
                client.sendall(server.recv(40))
                server.sendall(client.recv(72))
                seen.append(server.recv(56))
                client.sendall(seen[0])

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(AuthenticationFailed):
            Client([f"127.0.0.1:{impostor.getsockname()[1]}"], secret=cluster.secret, transport="tcp", timeout=5)
        thread.join(20)
        assert seen[0][:4] == b"\x08\0\0\0", "the server did not believe it either"
