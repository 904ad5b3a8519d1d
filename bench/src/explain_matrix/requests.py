# Moves data in answer to requests, as SFTP and HTTP ranges do:
#
#     requests.py serve                       answers each request with its number of bytes
#     requests.py ask ADDRESS BYTES COUNT     keeps COUNT requests of BYTES outstanding
import socket
import sys

PORT = 5301


def receive(connection, count):
    while count > 0:
        count -= len(connection.recv(min(count, 1 << 20)) or sys.exit())


def serve():
    with socket.create_server(("::", PORT), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        connection, _ = server.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while request := connection.recv(8, socket.MSG_WAITALL):
            connection.sendall(bytes(int.from_bytes(request, "big")))


def ask(address, size, outstanding):
    connection = socket.create_connection((address, PORT))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(outstanding):
        connection.sendall(size.to_bytes(8, "big"))
    while True:
        receive(connection, size)
        connection.sendall(size.to_bytes(8, "big"))


if sys.argv[1] == "serve":
    serve()
else:
    ask(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
