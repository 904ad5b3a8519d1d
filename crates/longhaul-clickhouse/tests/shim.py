"""The HTTP interface of ClickHouse, as far as its Rust driver uses it, over the embedded engine.

    shim.py FOLDER

Listens on a free port of 127.0.0.1 and prints it. Ends, and removes FOLDER, when its standard input
ends: when whoever started it is gone, however that came.
"""
import os
import shutil
import struct
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlparse

from chdb import session

FOLDER = sys.argv[1]
shutil.rmtree(FOLDER, ignore_errors=True)
os.makedirs(FOLDER)
SESSION = session.Session(os.path.join(FOLDER, "data"))
# The engine answers one question at a time, and `USE` and `SET` hold for the session.
ONE_AT_A_TIME = threading.Lock()
SAID = {}
NO_SETTINGS = {"query", "database", "default_format", "user", "password", "compress", "decompress"}


def quoted(name):
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def unpacked(body):
    """Blocks of LZ4, each behind its checksum, method and two lengths."""
    out, at = bytearray(), 0
    while at < len(body):
        length, _ = struct.unpack_from("<II", body, at + 17)
        out += unpacked_block(body[at + 25 : at + 16 + length])
        at += 16 + length
    return bytes(out)


def unpacked_block(block):
    out, at = bytearray(), 0

    def count(nibble, at):
        total = nibble
        while nibble == 15:
            total += block[at]
            nibble = 15 if block[at] == 255 else 0
            at += 1
        return total, at

    while True:
        token = block[at]
        literals, at = count(token >> 4, at + 1)
        out += block[at : at + literals]
        at += literals
        if at >= len(block):
            return out
        offset = block[at] | block[at + 1] << 8
        length, at = count(token & 15, at + 2)
        found = out[len(out) - offset :]
        out += (found * ((length + 4) // offset + 1))[: length + 4]


def prepare(parameters):
    database = parameters.get("database", "default")
    if SAID.get("database") != database:
        SESSION.query(f"USE {quoted(database)}")
        SAID["database"] = database
    for name, value in parameters.items():
        if name not in NO_SETTINGS and SAID.get(name) != value:
            text = value.replace("\\", "\\\\").replace("'", "\\'")
            SESSION.query(f"SET {name} = '{text}'")
            SAID[name] = value


def insert(sql, rows):
    """Rows come in a file: the embedded engine reads none from its caller."""
    at = sql.upper().rindex("FORMAT")
    form = sql[at + len("FORMAT") :].split()[0]
    with tempfile.NamedTemporaryFile(dir=FOLDER) as file:
        file.write(rows)
        file.flush()
        SESSION.query(f"{sql[:at]} FROM INFILE '{file.name}' FORMAT {form}", "Null")
    return b""


def answer(parameters, body):
    with ONE_AT_A_TIME:
        prepare(parameters)
        sql = parameters.get("query", "")
        if sql.lstrip()[:6].upper() == "INSERT":
            packed = parameters.get("decompress") == "1"
            return insert(sql, unpacked(body) if packed else body)
        sql = (sql + "\n" + body.decode()).strip()
        found = SESSION.query(sql, parameters.get("default_format", "TabSeparated"))
        return bytes(found.bytes())


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def chunks(self):
        while True:
            size = int(self.rfile.readline().split(b";")[0], 16)
            if size:
                yield self.rfile.read(size)
            self.rfile.readline()
            if not size:
                return

    def do_POST(self):
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            body = b"".join(self.chunks())
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parameters = dict(parse_qsl(urlparse(self.path).query, keep_blank_values=True))
        try:
            status, out = 200, answer(parameters, body)
        except Exception as error:
            status, out = 500, str(error).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(out)))
        self.end_headers()
        self.wfile.write(out)


def main():
    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    print(listener.server_address[1], flush=True)
    sys.stdin.read()
    with ONE_AT_A_TIME:
        SESSION.close()
    shutil.rmtree(FOLDER, ignore_errors=True)
    os._exit(0)


main()
