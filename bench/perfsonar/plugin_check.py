"""Runs the methods of `longhaul pscheduler` as pScheduler does and judges them by its validators.

Measures on loopback only. `pscheduler_validators` says what it needs.
"""

import datetime
import json
import subprocess
import time

from pscheduler_validators import check, check_type, exit_with_result, load_validator, program


def call(method, value=None):
    text = json.dumps(value) if value is not None else ""
    done = subprocess.run([program, "pscheduler", method], input=text, capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else {"exit": done.stderr}


def start_run(test, participant, data, duration):
    start = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1)
    value = {
        "schema": 1,
        "task-uuid": "00000000-0000-0000-0000-000000000000",
        "schedule": {"start": start.isoformat(), "duration": duration},
        "test": test,
        "participant": participant,
        "participant-data": data,
    }
    child = subprocess.Popen(
        [program, "pscheduler", "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    child.stdin.write(json.dumps(value))
    child.stdin.close()
    return child


def run_test(kind, spec, participants):
    name = f"{kind} {json.dumps(spec)}"
    test = {"type": kind, "spec": spec}
    validate = load_validator(kind)
    check(f"spec of {name}", *validate.spec_is_valid(spec))
    answer = call("can-run", test)
    check(f"can-run {name}", answer.get("can-run") is True, answer)
    duration = call("duration", test)["duration"]
    data = [call("participant-data", {"participant": i, "test": test}) for i in range(participants)]
    children = [start_run(test, i, data, duration) for i in range(participants)]
    results = [json.loads(child.stdout.read()) for child in children]
    check(f"exit of {name}", all(child.wait() == 0 for child in children))
    merged = call("merged-results", {"test": test, "results": results})
    check(f"success of {name}", merged.get("succeeded") is True, merged.get("error", ""))
    check(f"result of {name}", *validate.result_is_valid(merged))
    return merged


check_type("enumerate", call("enumerate"), "PluginEnumeration/Tool")
for schema in range(1, 8):
    spec = {"schema": schema, "dest": "127.0.0.1", "duration": "PT2S", "parallel": 2}
    merged = run_test("throughput", spec, 2)
check("limiter in diags", "limited by" in merged["diags"])
for more in [{"reverse": True}, {"udp": True, "bandwidth": 20_000_000}, {"omit": "PT1S"}]:
    run_test("throughput", {"schema": 1, "dest": "127.0.0.1", "duration": "PT2S", **more}, 2)
run_test("throughput", {"schema": 7, "dest": "127.0.0.1", "duration": "PT2S", "loopback": True}, 1)
run_test("rtt", {"schema": 1, "dest": "127.0.0.1", "count": 5, "interval": "PT0.1S"}, 1)
run_test("trace", {"dest": "127.0.0.1", "probe-type": "udp"}, 1)
run_test("mtu", {"dest": "127.0.0.1"}, 1)
reflector = subprocess.Popen([program, "serve", "--port=0", "--stamp=8620", "--anonymous"])
time.sleep(1)
for schema, more in [(1, {}), (2, {"flip": True}), (3, {"reverse": True}), (4, {"protocol": "stamp"})]:
    spec = {"schema": schema, "source": "127.0.0.1", "dest": "127.0.0.1", "ctrl-port": 8620, **more}
    merged = run_test("latency", {**spec, "packet-count": 20, "packet-interval": 0.01}, 1)
    check("delays", sum(merged["histogram-latency"].values()) == 20)
reflector.terminate()
reflector.wait()
for test in [
    {"type": "throughput", "spec": {"dest": "a", "burst-size": 9, "mss": "x y"}},
    {"type": "latency", "spec": {"dest": "a", "output-raw": True}},
]:
    answer = call("can-run", test)
    check(f"refusal of {test['type']}", answer.get("can-run") is False, answer)
exit_with_result()
