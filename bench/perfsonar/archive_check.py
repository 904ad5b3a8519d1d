"""Runs an agent with a template of pSConfig whose archive refuses the first documents, and judges those
that it takes by pScheduler's validators and by the fields that the pipeline of perfsonar/logstash reads.
The agent also measures latency, and a host whose name does not exist.

Measures on loopback only; run it in a network namespace of its own, because `longhaul serve` takes
port 5201. `pscheduler_validators` says what it needs.
"""

import http.server
import json
import subprocess
import tempfile
import threading
from pathlib import Path

from pscheduler_validators import check, check_type, exit_with_result, load_validator, program

REFUSED = 3
STAMP_PORT = 8862
NEAR, FAR, GONE = "127.0.0.2", "127.0.0.1", "gone.invalid"
EXPECTED = {(kind, "finished") for kind in ("throughput", "rtt", "trace", "mtu", "latency")}
EXPECTED |= {(kind, "failed") for kind in ("throughput", "rtt", "trace", "latency")}
requests, taken = 0, []
complete = threading.Event()


def key_of(request):
    document = request[1]
    return document["test"]["type"], document["run"]["state"]


class Archive(http.server.BaseHTTPRequestHandler):
    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(200, json.dumps(template).encode())

    def do_PUT(self):
        global requests
        requests += 1
        document = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if requests > REFUSED:
            taken.append((dict(self.headers), document))
            if set(map(key_of, taken)) >= EXPECTED:
                complete.set()
        self.answer(503 if requests <= REFUSED else 200)

    def log_message(self, *_):
        pass


def judge(headers, document):
    spec, result, state = document["test"]["spec"], document["result"], document["run"]["state"]
    validate = load_validator(document["test"]["type"])
    kind = f"{document['test']['type']}, {state}"
    check(f"spec of {kind} {json.dumps(spec)}", *validate.spec_is_valid(spec))
    check(f"result of {kind}", *validate.result_is_valid(result))
    ends = {NEAR, FAR if state == "finished" else GONE}
    check(f"ends of {kind}", {spec["source"], spec["dest"]} == ends, spec)
    check(f"success of {kind}", result["succeeded"] == (state == "finished"), result.get("error", ""))
    check(f"observer of {kind}", headers.get("x-ps-observer") == NEAR, headers)
    task, run = document["task"], document["run"]
    task_id, run_id = task["href"].split("/tasks/")[1], run["href"].split("/runs/")[1]
    check(f"ids of {kind}", run_id == document["id"] and task_id in run["href"], run["href"])
    for name, value, schema in [
        ("id", document["id"], "UUID"),
        ("task", task_id, "UUID"),
        ("start", run["start-time"], "Timestamp"),
        ("end", run["end-time"], "Timestamp"),
        ("added", run["added"], "Timestamp"),
        ("duration", task["detail"]["duration"], "Duration"),
        ("scheduled start", document["schedule"]["start"], "Timestamp"),
        ("participants", document["participants"][0], "Host"),
        ("tool", document["tool"]["name"], "String"),
    ]:
        check_type(f"{name} of {kind}", value, schema)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Archive)
url = f"http://127.0.0.1:{server.server_port}"
spec = {"source": "{% address[0] %}", "dest": "{% address[1] %}"}
template = {
    "addresses": {"near": {"address": NEAR}, "far": {"address": FAR}},
    "groups": {"g": {"type": "mesh", "addresses": [{"name": "near"}, {"name": "far"}]}},
    "schedules": {"light": {"repeat": "PT5S"}, "heavy": {"repeat": "PT20S"}},
    "tests": {
        "rtt": {"type": "rtt", "spec": {**spec, "count": 3}},
        "bulk": {"type": "throughput", "spec": {**spec, "duration": "PT2S", "parallel": 2}},
    },
    "archives": {"central": {"archiver": "http", "data": {
        "schema": 3, "_url": f"{url}/logstash", "op": "put",
        "_headers": {"x-ps-observer": "{% scheduled_by_address %}"},
    }}},
    "tasks": {
        "rtt": {"group": "g", "test": "rtt", "schedule": "light", "archives": ["central"]},
        "bulk": {"group": "g", "test": "bulk", "schedule": "heavy", "archives": ["central"]},
    },
}
threading.Thread(target=server.serve_forever, daemon=True).start()
with tempfile.TemporaryDirectory() as folder:
    watch = Path(folder) / "watch.toml"
    watch.write_text(
        f'include = "{url}/mesh.json"\n[agent]\nname = "near"\narchive = "a.sqlite3"\n'
        'listen = "127.0.0.1:0"\njitter = "0 s"\n'
        f'[[host]]\nname = "reflector"\naddress = "{FAR}"\n[[target]]\nhost = "reflector"\n'
        # A target that fails is skipped for a while, in all measurements.
        f'[[host]]\nname = "gone"\naddress = "{GONE}"\n[[target]]\nhost = "gone"\n'
        f'[[host]]\nname = "away"\naddress = "{GONE}"\n[[target]]\nhost = "away"\n'
        '[[measure]]\nname = "delay"\nkind = "latency"\nevery = "5 s"\ncount = 10\n'
        f'reflector_port = {STAMP_PORT}\ngroups = ["reflector", "gone"]\n'
        '[[measure]]\nname = "look"\nkind = "path"\nevery = "5 s"\ngroups = ["gone"]\n'
        '[[measure]]\nname = "fill"\nkind = "throughput"\nevery = "20 s"\ntime = "1 s"\n'
        'directions = "forward"\ngroups = ["away"]\n'
    )
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    children = [
        subprocess.Popen([program, "serve", "--anonymous", "-B", FAR, f"--stamp={STAMP_PORT}"], **quiet),
        subprocess.Popen([program, "watch", str(watch)], stdout=subprocess.DEVNULL),
    ]
    check("all tests arrived", complete.wait(180), sorted(set(map(key_of, taken))))
    for child in children:
        child.terminate()
        child.wait()
check("refused documents came again", requests > REFUSED, f"{requests} requests")
check("no document came twice", len({it["id"] for _, it in taken}) == len(taken))
for key in sorted(EXPECTED):
    judge(*next(it for it in taken if key_of(it) == key))
delays = [it["test"]["spec"]["source"] for _, it in taken if "histogram-latency" in it["result"]]
check("one-way delays of both directions", {NEAR, FAR} <= set(delays), delays)
exit_with_result()
