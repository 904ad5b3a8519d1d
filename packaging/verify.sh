#!/bin/sh
# Tries what `make dist` made: installs the packages into fresh root file systems, measures over
# loopback there, fetches the page, checks units and package, and removes it all again. Needs root,
# Debian or Ubuntu. Prints PASS or FAIL for each check and fails if one of them did.
set -u
cd "$(dirname "$0")/.." || exit 1
dist=$PWD/target/dist
work=$(mktemp -d)
failed=0
children=
clean() {
	for pid in $children; do kill -9 "$pid" 2>/dev/null; done
	rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM
check() { # NAME COMMAND…
	name=$1
	shift
	if "$@" >"$work/log" 2>&1; then
		echo "PASS  $name"
	else
		echo "FAIL  $name"
		sed 's/^/      /' "$work/log" | tail -20
		failed=$((failed + 1))
	fi
}

[ "$(id -u)" = 0 ] || { echo "verify: run this as root" >&2; exit 1; }
[ -f "$dist/SHA256SUMS" ] || { echo "verify: run make dist first" >&2; exit 1; }
export DEBIAN_FRONTEND=noninteractive
apt-get --quiet=2 update && apt-get --quiet=2 install --no-install-recommends \
	debootstrap lintian rpm skopeo systemd systemd-container binutils curl iproute2 man-db >/dev/null ||
	{ echo "verify: cannot install debootstrap, lintian, rpm, skopeo, systemd" >&2; exit 1; }

# Runs the program of a root in network and mount namespaces of its own, which end with it.
# Arguments: the root and the program's path in it.
cat >"$work/inside.sh" <<'END'
set -eu
root=$1
program=$2
export LONGHAUL_TOKEN=0123456789abcdef
ip link set lo up
mkdir -p "$root/proc" "$root/dev" "$root/tmp/try"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
chroot "$root" "$program" --version
echo $LONGHAUL_TOKEN >"$root/tmp/try/token"
chmod 600 "$root/tmp/try/token"
cat >"$root/tmp/try/watch.toml" <<'FILE'
[agent]
name = "here"
archive = "archive.sqlite3"
listen = "127.0.0.1:5280"
[[host]]
name = "far"
address = "127.0.0.1"
token_file = "token"
[[target]]
host = "far"
[[measure]]
name = "look"
kind = "path"
count = 1
every = "1 min"
FILE
chroot "$root" "$program" serve --token-file /tmp/try/token &
serve=$!
until ss --listening --numeric --tcp | grep -q ':5201 '; do sleep 0.2; done
chroot "$root" "$program" test 127.0.0.1 --time 2s --no-save
chroot "$root" "$program" watch /tmp/try/watch.toml &
watch=$!
page=$(curl --silent --fail --retry 20 --retry-connrefused --retry-delay 1 http://127.0.0.1:5280/)
script=$(echo "$page" | grep -o 'assets/[^"]*\.js' | head -1)
curl --silent --fail --output /dev/null "http://127.0.0.1:5280/$script"
echo "$page" | grep -q '<title>longhaul'
curl --silent --fail http://127.0.0.1:5280/api/v1/about
echo
kill -TERM $serve $watch
wait $serve $watch
rm -rf "$root/tmp/try"
END
# Boots a root in a container; the services run there in their sandboxes. Ends with its power off.
services_run() { # ROOT
	cat >"$1/try.sh" <<'END'
exec >/try.log 2>&1
set -eux
trap 'journalctl --no-pager -u longhaul-serve -u longhaul-watch; systemctl poweroff' EXIT
printf '[agent]\nname = "here"\n[[host]]\nname = "far"\naddress = "127.0.0.1"\n[[target]]\nhost = "far"
[[measure]]\nname = "look"\nkind = "path"\ncount = 1\nevery = "1 min"\n' >/etc/longhaul/watch.toml
systemctl start longhaul-serve longhaul-watch
sleep 3
longhaul test 127.0.0.1 --time 2s --no-save --token-file /var/lib/longhaul/serve.token
exec 3<>/dev/tcp/127.0.0.1/5280
printf 'GET / HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' >&3
grep -q '<title>longhaul' <&3
systemctl reload longhaul-watch
systemctl is-active longhaul-serve longhaul-watch
stat -c '%U %a' /var/lib/longhaul/serve.token | grep -x 'longhaul 600'
echo services run
END
	mkdir -p "$1/etc/systemd/system/multi-user.target.wants"
	printf '[Service]\nType=oneshot\nExecStart=/bin/bash /try.sh\n' >"$1/etc/systemd/system/try.service"
	ln -s ../try.service "$1/etc/systemd/system/multi-user.target.wants/"
	timeout 120 systemd-nspawn --quiet --register=no --keep-unit --private-network --boot \
		--directory="$1" >/dev/null 2>&1 </dev/null
	cat "$1/try.log"
	grep -qx 'services run' "$1/try.log"
}
runs() { # ROOT PROGRAM
	timeout --kill-after=5 180 unshare --mount --net --pid --fork --kill-child sh "$work/inside.sh" "$@"
}
absent() { for path; do [ ! -e "$path" ] || { echo "$path is left"; return 1; }; done; }
has_user() { grep -q '^longhaul:' "$1/etc/passwd"; }
has_no_user() { ! has_user "$1"; }
is_not_enabled() { [ -z "$(find "$1/etc/systemd" -name 'longhaul*' 2>/dev/null)" ]; }
installs_deb() { cp "$dist"/longhaul_*.deb "$1/deb" && chroot "$1" dpkg -i /deb; }
plugs_in() { chroot "$1" "$2/pscheduler/classes/tool/longhaul/enumerate" | grep -q '"name":"longhaul"'; }
keeps_edits() {
	echo '# edited' >>"$1/etc/longhaul/serve.env" && installs_deb "$1" && grep -q edited "$1/etc/longhaul/serve.env"
}
is_old_enough() {
	needed=$(objdump -T "$1/usr/bin/longhaul" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1)
	echo "needs $needed"
	[ "$(printf '%s\n' "$needed" GLIBC_2.28 | sort -V | tail -1)" = GLIBC_2.28 ]
}
is_small_enough() { [ "$(stat -c %s "$1/usr/bin/longhaul")" -le 25000000 ]; }
units_are_right() { SYSTEMD_LOG_LEVEL=warning systemd-analyze verify --root="$1" --man=no \
	longhaul-serve.service longhaul-watch.service; }
units_are_confined() { systemd-analyze security --offline=true --threshold=20 --root="$1" --no-pager \
	longhaul-serve.service longhaul-watch.service; }
makes_a_token() { # as the unit does
	command=$(sed -n "s/^ExecStartPre=.*'\(.*\)'\$/\1/p" "$1/usr/lib/systemd/system/longhaul-serve.service")
	(cd "$work" && sh -c "umask 077; $command" && [ "$(stat -c %a:%s serve.token)" = 600:32 ])
}

check "sums" sh -c "cd $dist && sha256sum --check SHA256SUMS"
check "lintian has no errors" lintian --allow-root --fail-on error "$dist"/longhaul_*.deb
for suite in bullseye bookworm; do
	root=$work/$suite
	check "$suite: fresh root" debootstrap --variant=minbase --include=systemd,systemd-sysv "$suite" "$root"
	if [ "$suite" = bullseye ]; then
		check "$suite: tarball unpacks" tar -C "$root/usr/local" --strip-components=2 -xzf "$dist"/longhaul-*.tar.gz
		check "$suite: tarball's program measures, serves its page" runs "$root" /usr/local/bin/longhaul
		rm -rf "$root/usr/local"
	fi
	check "$suite: dpkg -i" installs_deb "$root"
	check "$suite: user" has_user "$root"
	check "$suite: program measures, serves its page" runs "$root" /usr/bin/longhaul
	check "$suite: services are not enabled" is_not_enabled "$root"
	check "$suite: units, by systemd-analyze verify" units_are_right "$root"
	check "$suite: units, by systemd-analyze security" units_are_confined "$root"
	check "$suite: services run under systemd" services_run "$root"
	check "$suite: needs no symbol newer than GLIBC_2.28" is_old_enough "$root"
	check "$suite: program has at most 25 MB" is_small_enough "$root"
	check "$suite: token of 128 bits, mode 600" makes_a_token "$root"
	check "$suite: plug-in of pScheduler" plugs_in "$root" /usr/lib
	check "$suite: manual page" sh -c "man -l $root/usr/share/man/man1/longhaul-test.1.gz | grep -q limited"
	check "$suite: upgrade keeps edited configuration" keeps_edits "$root"
	mkdir -p "$root/var/lib/longhaul"
	check "$suite: purge" chroot "$root" dpkg --purge longhaul
	check "$suite: nothing is left" absent "$root/usr/bin/longhaul" "$root/etc/longhaul" \
		"$root/var/lib/longhaul" "$root/usr/lib/systemd/system/longhaul-serve.service"
	check "$suite: user is gone" has_no_user "$root"
done

# No root of an EL distribution can be had from Debian's archive. rpm installs into Debian 12
# without dependencies, because its database there knows of no package.
root=$work/bookworm
check "rpm: -i --nodeps into Debian 12" rpm --root "$root" --nodeps -i "$dist"/longhaul-*.rpm
check "rpm: user" has_user "$root"
check "rpm: program measures, serves its page" runs "$root" /usr/bin/longhaul
check "rpm: units, by systemd-analyze verify" units_are_right "$root"
check "rpm: plug-in of pScheduler" plugs_in "$root" /usr/libexec
check "rpm: services are not enabled" is_not_enabled "$root"
check "rpm: -e" rpm --root "$root" -e longhaul
check "rpm: nothing is left" absent "$root/usr/bin/longhaul" "$root/usr/lib/systemd/system/longhaul-serve.service"

check "image: skopeo reads it" skopeo --insecure-policy copy \
	"oci-archive:$(echo "$dist"/longhaul-*-oci.tar)" "dir:$work/layers"
mkdir "$work/image"
for layer in "$work"/layers/*; do
	tar -C "$work/image" -xzf "$layer" 2>/dev/null
done
check "image: program measures, serves its page" runs "$work/image" /usr/bin/longhaul

echo "verify: $failed checks failed"
[ "$failed" = 0 ]
