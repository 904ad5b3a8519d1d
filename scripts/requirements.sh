#!/bin/sh
# Checks what a step of the tests needs. As root with apt-get it installs what is missing; otherwise it
# fails with the command that helps.
# usage: requirements.sh programs | traffic | captures | kernel | node | browser | database | python FOLDER PACKAGE
set -eu
fail() {
    echo "$*" >&2
    exit 1
}
PATH=$PATH:/usr/sbin:/sbin
has() {
    command -v "$1" >/dev/null
}
# Installs Debian packages: install PACKAGE...
install() {
    [ "$(id -u)" = 0 ] && has apt-get ||
        fail "the tests need programs that are not here; install them: apt-get install $*"
    # No service is started: the tests start their own processes.
    export RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive
    apt-get --quiet update
    apt-get --quiet --yes --no-install-recommends install "$@"
}
# Installs the packages of missing programs: ensure PROGRAM=PACKAGE...
ensure() {
    missing=
    for item; do
        has "${item%%=*}" || missing="$missing ${item#*=}"
    done
    # shellcheck disable=SC2086  # several words
    [ -z "$missing" ] || install $missing
}
# The tools of the web page. Packages of Node.js other than Debian's include npm.
node() {
    ensure node=nodejs
    ensure npm=npm
    [ "$(printf 'v20.19\n%s\n' "$(command node --version)" | sort -V | head -n 1)" = v20.19 ] ||
        fail "here is node $(command node --version); the page's tools need Node.js 20.19 or newer with npm; get it from https://nodejs.org or your distribution (Debian 12 has an older one), or leave the page out: the program builds without it, with a text in its place"
}
case $1 in
programs) # tshark parses captures independently; openssl creates keys; promtool checks metrics and rules;
    # curl writes to a disk made with mkfs.ext4
    ensure iperf3=iperf3 nuttcp=nuttcp ping=iputils-ping ip=iproute2 script=bsdutils unshare=util-linux \
        python3=python3 tshark=tshark openssl=openssl promtool=prometheus \
        curl=curl mkfs.ext4=e2fsprogs
    ;;
traffic) # of others, for `cargo xtask bench available`
    ensure iperf3=iperf3 mgen=mgen
    ;;
captures) # are counted, for `cargo xtask bench captures`
    ensure tcptrace=tcptrace
    ;;
kernel) # of tests in virtual time
    install flex bison bc libelf-dev xz-utils rsync
    ;;
node) node ;;
browser)
    node
    ensure chromium=chromium
    ;;
database) # two servers of 2018 with ZooKeeper
    ensure clickhouse-server=clickhouse-server
    [ -f /usr/share/java/zookeeper.jar ] || install zookeeper
    ;;
python) # Debian packages the tool for virtual environments separately
    if [ ! -x "$2/bin/pip" ]; then
        python3 -c 'import ensurepip, venv' 2>/dev/null || install python3-venv
        python3 -m venv "$2"
    fi
    "$2/bin/pip" install --quiet --disable-pip-version-check "$3"
    ;;
*) fail "requirements.sh: there is no $1" ;;
esac
