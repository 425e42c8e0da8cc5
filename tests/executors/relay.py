"""A relay that counts what passes between a process and a server."""

import socket
import socketserver
import threading


class Relay(socketserver.ThreadingTCPServer):
    """Hands on to ``tcp://host:port`` what it gets, and back, and counts it."""

    daemon_threads = True

    def __init__(self, address):
        super().__init__(("127.0.0.1", 0), None)
        host, port = address.rpartition("/")[2].split(":")
        self._server = host, int(port)
        self.address = "tcp://{}:{}".format(*self.server_address)
        self.bytes = 0

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error):
        self.shutdown()
        super().__exit__(*error)

    def finish_request(self, request, client_address):
        with socket.create_connection(self._server) as other:
            back = threading.Thread(target=self._hand_on, args=(other, request), daemon=True)
            back.start()
            self._hand_on(request, other)
            back.join()

    def _hand_on(self, source, target):
        while data := source.recv(1 << 16):
            self.bytes += len(data)
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
