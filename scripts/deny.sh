#!/bin/sh
# Checks licences, sources, bans and known vulnerabilities of all dependencies (deny.toml).
# usage: deny.sh                  checks against scripts/advisories.tsv
#        deny.sh --update FOLDER  first writes that file from a checkout of rustsec/advisory-db
set -eu
cd "$(dirname "$0")/.."
version=0.20.2
tools=${CARGO_TARGET_DIR:-$PWD/target}/tools
"$tools/bin/cargo-deny" --version 2>/dev/null | grep -qx "cargo-deny $version" ||
    CARGO_TARGET_DIR=$tools/build cargo install cargo-deny --version $version --locked --debug --root "$tools"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# cargo-deny reads a git repository with one file per advisory. The number is its hash of the address.
python3 - "$work" "$@" <<'END'
import json, pathlib, re, sys, tomllib

LIST = pathlib.Path("scripts/advisories.tsv")

def read_advisory(path):
    head = tomllib.loads(re.search(r"```toml\n(.*?)```", path.read_text(), re.S)[1])
    advisory, versions = head["advisory"], head["versions"]
    ranges = [json.dumps(versions.get(name, [])) for name in ("patched", "unaffected")]
    kind = advisory.get("informational", "-")
    row = [advisory["package"], advisory["id"], advisory["date"], kind, *ranges]
    return None if "withdrawn" in advisory else "\t".join(row)

work = pathlib.Path(sys.argv[1])
if sys.argv[2:3] == ["--update"]:
    database = pathlib.Path(sys.argv[3], "crates")
    locks = [pathlib.Path(name).read_text() for name in ("Cargo.lock", "fuzz/Cargo.lock")]
    names = sorted({name for lock in locks for name in re.findall(r'^name = "(.*)"', lock, re.M)})
    files = [file for name in names for file in sorted((database / name).glob("*.md"))]
    rows = [row for row in map(read_advisory, files) if row]
    comments = [line for line in LIST.read_text().splitlines() if line.startswith("#")]
    LIST.write_text("\n".join(comments + rows) + "\n")
for line in LIST.read_text().splitlines():
    if line.startswith("#"):
        continue
    package, name, date, kind, patched, unaffected = line.split("\t")
    kind = "" if kind == "-" else f'informational = "{kind}"\n'
    file = work / "advisory-db-3157b0e258782691/crates" / package / f"{name}.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        f'```toml\n[advisory]\nid = "{name}"\npackage = "{package}"\ndate = "{date}"\n{kind}'
        f"[versions]\npatched = {patched}\nunaffected = {unaffected}\n```\n\n# {name}\n"
    )
END
git -C "$work/advisory-db-3157b0e258782691" init --quiet
git -C "$work/advisory-db-3157b0e258782691" add .
git -C "$work/advisory-db-3157b0e258782691" -c user.name=deny -c user.email=deny@localhost commit --quiet --message advisories
rules=$work/deny.toml
sed "s|^\[advisories\]|&\ndb-path = \"$work\"|" deny.toml >"$rules"
# The fuzz targets are not distributed, so their licences do not matter.
check() { # MANIFEST CHECKS...
    cargo fetch --locked --quiet --manifest-path "$1"
    manifest=$1
    shift
    "$tools/bin/cargo-deny" --frozen --workspace --manifest-path "$manifest" --config "$rules" check "$@"
}
check Cargo.toml all
check fuzz/Cargo.toml advisories bans sources
