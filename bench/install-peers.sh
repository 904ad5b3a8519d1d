#!/bin/sh
# Installs the programs of bench/src/peers.toml that FOLDER lacks, each pinned to one version so that
# tables of two days can be compared. The machine's own packages are not changed. A program that
# cannot be installed is left out.
# usage: install-peers.sh FOLDER
set -u
mkdir -p "$1" && cd "$1" || exit 1
folder=$PWD

# Makes an executable NAME of a command: wrap NAME COMMAND...
wrap() {
    name=$1
    shift
    printf '#!/bin/sh\nexec %s "$@"\n' "$*" >"$name.new" && chmod +x "$name.new" && mv "$name.new" "$name"
}

# from_cargo NAME PACKAGE VERSION PROGRAM
from_cargo() {
    [ -x "$1" ] || { cargo install --quiet --locked "$2" --version "=$3" --root cargo &&
        wrap "$1" "$folder/cargo/bin/$4"; }
}

# from_debian NAME RELEASE PACKAGE...: iperf3 with the libraries of its release
from_debian() {
    [ ! -x "$1" ] || return 0
    command -v apt-get >/dev/null || return 1
    name=$1 release=$2
    shift 2
    unpack "$release" "$@" || return 1
    # It uses its own loader, because the machine's fits only the machine's libraries.
    root=$folder/$release/root
    loader=$(find "$root" -type f \( -name 'ld-linux*' -o -name 'ld-2.*' \) | head -n 1)
    libraries=$(find "$root" -type d -name '*-linux-gnu' | paste -sd :)
    wrap "$name" "$loader --library-path $libraries $root/usr/bin/iperf3"
}

# Downloads and unpacks packages of a release: unpack RELEASE PACKAGE...
unpack() (
    set -e
    release=$1
    shift
    mkdir -p "$release/lists/partial" "$release/cache/archives/partial" "$release/root"
    cd "$release"
    mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' |
        sed -n 's/^Debian //p' | head -n 1)
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    echo "deb [signed-by=$keyring] $mirror $release main" >sources.list
    for command in update "download $(printf "%s/$release " "$@")"; do
        # shellcheck disable=SC2086  # several words
        apt-get --quiet -o Dir::Etc::sourcelist="$PWD/sources.list" -o Dir::Etc::sourceparts=/dev/null \
            -o Dir::State::lists="$PWD/lists" -o Dir::Cache="$PWD/cache" $command
    done
    for file in *.deb; do
        dpkg-deb -x "$file" root
    done
)

from_debian iperf3-3.9 bullseye iperf3 libiperf0 libssl1.1 libsctp1 libc6
from_debian iperf3-3.18 trixie iperf3 libiperf0 libssl3t64 libsctp1 libc6 libzstd1 zlib1g
from_cargo iperf3-rs iperf3-rs 1.0.4 iperf3-rs
from_cargo riperf3 riperf3-cli 0.8.0 riperf3
true
