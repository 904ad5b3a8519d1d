#!/bin/sh
# Fuzzes everything that reads input from outside, two targets at a time and at low priority: 20 CPU
# minutes over all targets, N seconds for each, or N hours in all. It starts from the fixtures and
# from the kept inputs (fuzz/corpus and fuzz/crashes, see fuzz/README.md); --hours adds to the kept
# inputs what it found, minimised. Inputs that fail are in fuzz/artifacts.
#
# The fuzzed code is safe Rust: the checks of debug builds (overflow, and the conditions of unsafe
# functions in dependencies) find more in it than sanitizers do, and the build takes a third of the
# time. Without a nightly tool chain the property tests of the same parsers must do.
# usage: fuzz.sh [--seconds N|--hours N] [TARGET...]
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/target/tools/bin:$PATH
export PATH
# No input takes as long, or as much memory, even on a busy machine.
LIMITS="-timeout=60 -rss_limit_mb=1024"
# The bytes of the kept inputs of one target.
KEPT_BYTES=150000

fuzz() {
    command=$1
    shift
    nice cargo +nightly fuzz "$command" --dev --sanitizer none "$@"
}

max_length() {
    case $1 in
    reports | conclusions | imports) echo 32768 ;;
    captures) echo 16384 ;;
    *) echo 4096 ;;
    esac
}

# Writes the inputs of one line each into files: unpack FILE FOLDER
unpack() {
    mkdir -p "$2"
    [ -f "$1" ] || return 0
    number=0
    while read -r line; do
        number=$((number + 1))
        printf %s "$line" | base64 -d >"$2/$(basename "$1")-$number"
    done <"$1"
}

# Writes the files as lines, the shortest first, as many as are kept: pack FOLDER
pack() {
    find "$1" -type f -exec sh -c 'for file; do base64 -w 0 "$file"; echo; done' sh {} + |
        LC_ALL=C sort -u | awk '{ print length, $0 }' | sort -n | cut -d ' ' -f 2 |
        awk -v most="$KEPT_BYTES" '(total += length + 1) <= most' | LC_ALL=C sort
}

# Writes a seed from files, after a first byte in octal: seed BYTE FOLDER FILE...
seed() {
    byte=$1 folder=$2
    shift 2
    for file; do
        { printf "$byte" && cat "$file"; } >"$folder/$(basename "$file")"
    done
}

# Makes the seeds of a target from the repository's own files: make_seeds TARGET FOLDER
make_seeds() {
    mkdir -p "$2"
    case $1 in
    reports | conclusions)
        seed '' "$2" fixtures/reports/*.json
        number=0
        for file in fixtures/reports/*.json; do
            printf "\\$(printf %03o $number)" >"$2/$(basename "$file").edited"
            number=$((number + 1))
        done
        ;;
    imports) seed '\010' "$2" fixtures/imports/*.json fixtures/imports/*.txt fixtures/imports/*.xml \
        fixtures/imports/*/*.json ;;
    records) seed '\000' "$2" fixtures/records/*.toml ;;
    configuration)
        seed '\000' "$2" contrib/watch.toml crates/longhaul/src/cli/watch_command/fleet.toml \
            crates/longhaul/tests/golden/watch-wrong.toml xtask/src/page_checks/watch.toml
        seed '\001' "$2" crates/longhaul-lab/paths/*.toml bench/tests/virtual/plain.toml
        ;;
    captures)
        for file in fixtures/policing/*-T=1-CP=100*.xz; do
            xz -dc "$file" | head -c 8000 >"$2/$(basename "$file")" || true
        done
        cp fixtures/captures/*.pcap* "$2"
        ;;
    esac
}

# Fuzzes one target: fuzz_one TARGET SECONDS
fuzz_one() {
    work=target/fuzz/$1
    mkdir -p "$work"
    touch "$work/begun"
    make_seeds "$1" "$work/seeds"
    unpack "fuzz/corpus/$1.b64" "$work/inputs"
    unpack "fuzz/crashes/$1.b64" "$work/inputs"
    case $1 in
    wire | sessions) dictionary=-dict=fuzz/wire.dict ;;
    *) dictionary= ;;
    esac
    # shellcheck disable=SC2086  # several options, or none
    fuzz run "$1" "$work/inputs" "$work/seeds" -- $LIMITS -max_len="$(max_length "$1")" $dictionary \
        -max_total_time="$2" -verbosity=0 -print_final_stats=1 >"$work/log" 2>&1 && {
        echo "$1: $(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log") inputs in $2 s, nothing failed"
        return
    }
    tail -n 40 "$work/log"
    find "fuzz/artifacts/$1" -type f -newer "$work/begun" ! -name 'slow-unit*' | while read -r input; do
        echo "$1 fails with $input"
        echo "  to reproduce: cargo +nightly fuzz run --dev --sanitizer none $1 $input"
        echo "  to keep it:   { base64 -w 0 $input; echo; } >>fuzz/crashes/$1.b64"
    done
    return 1
}

# Keeps those of the inputs that reach more than the seeds do: keep_inputs TARGET
keep_inputs() {
    work=target/fuzz/$1
    rm -rf "$work/merged" "$work/added"
    cp -r "$work/seeds" "$work/merged"
    mkdir "$work/added"
    # shellcheck disable=SC2086  # several options
    fuzz run "$1" "$work/merged" "$work/inputs" -- $LIMITS -max_len="$(max_length "$1")" \
        -merge=1 -verbosity=0 >"$work/log" 2>&1
    for file in "$work/merged"/*; do
        [ -e "$work/seeds/$(basename "$file")" ] || cp "$file" "$work/added"
    done
    mkdir -p fuzz/corpus
    pack "$work/added" >"fuzz/corpus/$1.b64"
    echo "$1: $(wc -l <"fuzz/corpus/$1.b64") inputs are kept"
}

seconds= hours=
case ${1:-} in
--one) fuzz_one "$2" "$3" && exit || exit 1 ;;
--keep) keep_inputs "$2" && exit || exit 1 ;;
--seconds) seconds=$2 && shift 2 ;;
--hours) hours=$2 && shift 2 ;;
esac
cargo +nightly fuzz --version >/dev/null 2>&1 || {
    cargo +nightly --version >/dev/null 2>&1 &&
        cargo install --quiet --locked cargo-fuzz --root target/tools
} || {
    echo "cargo-fuzz or the nightly tool chain is not here: not fuzzed; the property tests of the parsers ran"
    exit 0
}
fuzz build
targets=${*:-$(cargo +nightly fuzz list)}
count=$(echo "$targets" | wc -w)
[ -z "$hours" ] || seconds=$((hours * 3600 * 2 / count))
each=${seconds:-$((20 * 60 / count))}
failed=0
echo "$targets" | tr ' ' '\n' | xargs -P 2 -I TARGET "$0" --one TARGET "$each" || failed=1
[ -z "$hours" ] || echo "$targets" | tr ' ' '\n' | xargs -P 2 -I TARGET "$0" --keep TARGET
exit $failed
