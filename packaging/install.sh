#!/bin/sh
# Installs a built program with its manual pages, completions, units, the plug-in for
# pScheduler and example configuration.
# Arguments: the program, and optionally the file with the licences of its dependencies.
# PREFIX (default /usr/local) is the final place; DESTDIR, if given, stands before every path.
set -eu
program=$1
notices=${2-}
here=$(dirname "$0")
prefix=${PREFIX:-/usr/local}
to=${DESTDIR-}$prefix

install -D -m 755 "$program" "$to/bin/longhaul"
"$program" man --out "$to/share/man/man1"
mkdir -p "$to/share/bash-completion/completions" "$to/share/zsh/site-functions" \
	"$to/share/fish/vendor_completions.d"
"$program" completions bash >"$to/share/bash-completion/completions/longhaul"
"$program" completions zsh >"$to/share/zsh/site-functions/_longhaul"
"$program" completions fish >"$to/share/fish/vendor_completions.d/longhaul.fish"
for unit in "$here"/systemd/*.service; do
	install -D -m 644 "$unit" "$to/lib/systemd/system/${unit##*/}"
	sed -i "s|=/usr/bin/longhaul|=$prefix/bin/longhaul|" "$to/lib/systemd/system/${unit##*/}"
done
plugin=$to/libexec/pscheduler/classes/tool/longhaul
for method in enumerate can-run duration participant-data run merged-results; do
	install -D -m 755 "$here/../contrib/pscheduler-tool-longhaul/method" "$plugin/$method"
	sed -i "s|/usr/bin/longhaul|$prefix/bin/longhaul|" "$plugin/$method"
done
mkdir -p "$to/share/doc/longhaul"
for page in README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE; do
	install -m 644 "$here/../$page" "$to/share/doc/longhaul/"
done
install -m 644 "$here/../contrib/prometheus/rules.yml" "$to/share/doc/longhaul/prometheus-rules.yml"
install -m 644 "$here/../contrib/grafana/prometheus.json" "$to/share/doc/longhaul/grafana.json"
[ -z "$notices" ] || install -m 644 "$notices" "$to/share/doc/longhaul/THIRD-PARTY-LICENSES.txt"
for example in "$here/../contrib/watch.toml" "$here/serve.env"; do
	kept=${DESTDIR-}/etc/longhaul/${example##*/}
	[ -e "$kept" ] || install -D -m 644 "$example" "$kept"
done
echo "installed: $to/bin/longhaul, manual pages, completions and units in $to," \
	"examples in ${DESTDIR-}/etc/longhaul"
