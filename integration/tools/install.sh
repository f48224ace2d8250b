#!/usr/bin/env bash
# Brings everything the tests need beyond Go to this checkout: from Debian redis-server, HAProxy, systemd (its
# systemd-analyze judges the unit), Prometheus with promtool, a headless Chromium and libnss-myhostname, then the pinned
# Python virtual environments, the pinned npm projects and the pinned programs of the conformance suite. What is not from
# Debian lives under .cache/ of the checkout.
# Running it again costs a few milliseconds: each part carries a stamp with the digest of its lock.
#
# install.sh chaos   brings what `make chaos` needs beside that: iproute2 and nftables.
# install.sh bench   brings what `make bench` needs instead: redis-server, and nginx with Lua and HAProxy to hold against.
# install.sh rock    brings what `make rock` needs beyond that of the tests: ROCK as it is published, with Ray. A gigabyte.
# install.sh supply  brings what `make sbom` needs: the schemas of CycloneDX with a validator.
#
# Wants: Debian, Python 3.11 or later with venv, Node 20 or later with npm; root or sudo only where a package is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
cache=$PWD/.cache
mkdir -p "$cache"

# Two runs at once (an editor's and a shell's) must not build the same directory.
exec 9>"$cache/install.lock"
flock 9

python=$(command -v python3.11 || command -v python3)

say() { printf 'install: %s\n' "$*" >&2; }

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# The SDKs are given a domain below localhost, as RFC 6761 section 6.3 sets it aside. libc sends such names to DNS unless
# libnss-myhostname answers them first, with ::1 and 127.0.0.1; it needs no daemon.
resolves_localhost() { getent ahostsv4 49983-x.sandbox.localhost 2>/dev/null | grep -q '^127\.0\.0\.1 '; }

test_packages() {
	command -v redis-server >/dev/null || echo redis-server
	command -v haproxy >/dev/null || echo haproxy
	command -v systemd-analyze >/dev/null || echo systemd
	"$python" -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
	command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null || echo chromium-headless-shell
	command -v promtool >/dev/null || echo prometheus
	resolves_localhost || echo libnss-myhostname
}

bench_packages() {
	command -v redis-server >/dev/null || echo redis-server
	command -v haproxy >/dev/null || echo haproxy
	# Three of them leave nothing on PATH.
	dpkg -s nginx libnginx-mod-http-lua lua-nginx-redis lua-cjson >/dev/null 2>&1 || echo nginx libnginx-mod-http-lua lua-nginx-redis lua-cjson
}

chaos_packages() {
	PATH=$PATH:/usr/sbin:/sbin
	command -v ip >/dev/null || echo iproute2
	command -v nft >/dev/null || echo nftables
}

# apt_install PACKAGE…: Debian's packages of servers start a service when they are installed. The tests run their own servers
# on free ports and must not leave one behind, so a policy-rc.d that forbids it is in place for as long as apt runs.
apt_install() {
	[ $# -gt 0 ] || return 0
	say "apt-get install $*"
	local policy=/usr/sbin/policy-rc.d made=
	if [ ! -e "$policy" ]; then
		printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
		as_root chmod 755 "$policy"
		made=1
	fi
	local status=0
	{ as_root apt-get update -qq && as_root env DEBIAN_FRONTEND=noninteractive \
		apt-get install -y -qq --no-install-recommends "$@" >/dev/null; } || status=$?
	[ -z "$made" ] || as_root rm -f "$policy"
	return "$status"
}

# Without it every test that gives an SDK a domain would fail with "name or service not known", far from the cause.
check_localhost() {
	resolves_localhost && return
	say "names below localhost do not resolve: libnss-myhostname is missing, or 'hosts:' in /etc/nsswitch.conf does not name myhostname before dns"
	return 1
}

digest() { cat "$@" | sha256sum | cut -d' ' -f1; }

# fresh DIR DIGEST: true when DIR was built from the files with that digest.
fresh() { [ "$(cat "$1/.installed-from" 2>/dev/null)" = "$2" ]; }

# python_env NAME LOCK: .cache/NAME is a virtual environment holding exactly what LOCK pins.
python_env() {
	local dir=$cache/$1 lock=$2 sum
	sum=$(digest "$lock" <("$python" -V))
	fresh "$dir" "$sum" && return
	say "$1 from $lock"
	rm -rf "$dir"
	"$python" -m venv "$dir"
	"$dir/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --require-hashes -r "$lock"
	"$dir/bin/python" -m compileall -q "$dir/lib" >/dev/null || true
	echo "$sum" >"$dir/.installed-from"
}

# conformance_suite: .cache/conformance has the programs of connectrpc.com/conformance, at the version and with the hashes of
# the module in integration/conformance/suite.
conformance_suite() {
	local dir=$cache/conformance module=integration/conformance/suite sum
	sum=$(digest "$module/go.mod" "$module/go.sum" <(go version))
	fresh "$dir" "$sum" && return
	say "the conformance suite from $module"
	rm -rf "$dir"
	mkdir -p "$dir"
	# The checkout's version is not theirs.
	go -C "$module" build -mod=readonly -buildvcs=false -ldflags=-w -o "$dir/" tool
	echo "$sum" >"$dir/.installed-from"
}

# npm_project NAME SOURCE: .cache/NAME is SOURCE's package.json and lock with node_modules beside them.
npm_project() {
	local dir=$cache/$1 src=$2 sum
	sum=$(digest "$src/package.json" "$src/package-lock.json" <(node --version))
	fresh "$dir" "$sum" && return
	say "$1 from $src"
	rm -rf "$dir"
	mkdir -p "$dir"
	cp "$src/package.json" "$src/package-lock.json" "$dir/"
	(cd "$dir" && npm ci --silent --no-audit --no-fund --ignore-scripts)
	echo "$sum" >"$dir/.installed-from"
}

if [ "${1:-}" = bench ]; then
	# shellcheck disable=SC2046 # names of packages, one word each
	apt_install $(bench_packages)
	exit
fi

if [ "${1:-}" = chaos ]; then
	# shellcheck disable=SC2046
	apt_install $(chaos_packages)
	exit
fi

if [ "${1:-}" = rock ]; then
	python_env py-fakeredis integration/tools/fakeredis.txt
	python_env py-e2b-2.34.0 integration/sdk/py/e2b-2.34.0.txt
	python_env py-rock integration/realrock/rock.txt
	exit
fi

if [ "${1:-}" = supply ]; then
	python_env py-supply integration/tools/cyclonedx.txt
	exit
fi

if ! command -v npm >/dev/null || [ "$(node -p 'process.versions.node.split(".")[0]')" -lt 20 ]; then
	say "Node 20 or later with npm is wanted on PATH"
	exit 1
fi
# shellcheck disable=SC2046
apt_install $(test_packages)
check_localhost

pids=()
python_env py-e2b-2.34.0 integration/sdk/py/e2b-2.34.0.txt & pids+=($!)
python_env py-e2b-newest integration/sdk/py/e2b-newest.txt & pids+=($!)
python_env py-fakeredis integration/tools/fakeredis.txt & pids+=($!)
conformance_suite & pids+=($!)
for version in 2.34.0 2.50.0 2.51.0; do
	npm_project "js-e2b-$version" "integration/sdk/js/e2b-$version" & pids+=($!)
done
status=0
for pid in "${pids[@]}"; do wait "$pid" || status=1; done
[ "$status" = 0 ] || say "failed"
exit "$status"
