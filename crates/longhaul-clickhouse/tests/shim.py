"""The HTTP interface of ClickHouse, as far as its Rust driver uses it, over the embedded engine.

    shim.py FOLDER [keep]

Listens on a free port of 127.0.0.1 and prints it. Ends when its standard input ends: when whoever
started it is gone, however that came. Removes FOLDER first and last, unless it is to be kept.
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
KEEP = sys.argv[2:] == ["keep"]
if not KEEP:
    shutil.rmtree(FOLDER, ignore_errors=True)
os.makedirs(FOLDER, exist_ok=True)
SESSION = session.Session(os.path.join(FOLDER, "data"))
# The engine answers one question at a time, and `USE` and `SET` hold for the session.
ONE_AT_A_TIME = threading.Lock()
SAID = {}
NO_SETTINGS = {"query", "database", "default_format", "user", "password", "compress", "decompress"}


def quoted(name):
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def framed(body):
    """The blocks of LZ4 that the driver sends, each behind its checksum, method and two lengths, as a
    frame of LZ4 with blocks of at most 4 MiB, which the engine reads from a file."""
    out, at = bytearray.fromhex("04224d18607073"), 0
    while at < len(body):
        length = struct.unpack_from("<I", body, at + 17)[0] - 9
        out += struct.pack("<I", length) + body[at + 25 : at + 25 + length]
        at += 25 + length
    return out + bytes(4)


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


def insert(sql, rows, compression):
    """Rows come in a file: the embedded engine reads none from its caller."""
    at = sql.upper().rindex("FORMAT")
    form = sql[at + len("FORMAT") :].split()[0]
    with tempfile.NamedTemporaryFile(dir=FOLDER) as file:
        file.write(rows)
        file.flush()
        source = f"'{file.name}' COMPRESSION '{compression}'"
        SESSION.query(f"{sql[:at]} FROM INFILE {source} FORMAT {form}", "Null")
    return b""


def answer(parameters, body):
    with ONE_AT_A_TIME:
        prepare(parameters)
        sql = parameters.get("query", "")
        if sql.lstrip()[:6].upper() == "INSERT":
            packed = parameters.get("decompress") == "1"
            return insert(sql, framed(body), "lz4") if packed else insert(sql, body, "none")
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
    if not KEEP:
        shutil.rmtree(FOLDER, ignore_errors=True)
    os._exit(0)


main()
