"""The checks that the scripts of this folder share: pScheduler's validators, from a checkout of
github.com/perfsonar/pscheduler, and a line for each check.

Arguments of the scripts: the program, and the checkout. Needs the package jsonschema older than 4.
"""

import importlib.util
import sys
from pathlib import Path

program, checkout = sys.argv[1], Path(sys.argv[2])
failed = 0


def load_module(name, path):
    spec = importlib.util.spec_from_file_location(name, checkout / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_validator(kind):
    return load_module(f"validate_{kind}", f"pscheduler-test-{kind}/{kind}/validate.py")


def check(name, passed, detail=""):
    global failed
    failed += not passed
    print("PASS" if passed else "FAIL", name, detail)


def check_type(name, value, schema):
    """Checks a value against a type of pScheduler's dictionary."""
    schema = {"type": "object", "properties": {"it": {"$ref": f"#/pScheduler/{schema}"}}}
    check(name, *jsonval.json_validate({"it": value}, schema))


def exit_with_result():
    """Fails if one of the checks did."""
    sys.exit(failed > 0)


# The validators need this part of the package only.
jsonval = load_module("pscheduler", "python-pscheduler/pscheduler/pscheduler/jsonval.py")
sys.modules["pscheduler"] = jsonval
