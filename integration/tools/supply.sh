#!/usr/bin/env bash
# What a release is made of, and how it is known to be good: `make release`, `make sbom`, `make vulnerabilities`,
# `make reproducible`; `make supply` is all of them. The flags of a release stand here and in deploy/container/Containerfile, and a test
# holds them to one another.
#
# supply.sh release          bin/e2b-gateway, with the texts of the licences of what is linked, and digests
# supply.sh sbom             bin/e2b-gateway.cdx.json: CycloneDX, of the binary, checked against its schema and the binary
# supply.sh vulnerabilities  no known vulnerability in what the code calls
# supply.sh reproducible     two builds in two directories, with caches of their own and empty, have the same bytes (10 minutes)
#
# Wants: git, the module proxy; for sbom what `install.sh supply` brings.
set -euo pipefail
cd "$(dirname "$0")/../.."

GOVULNCHECK=golang.org/x/vuln/cmd/govulncheck@v1.9.0
CYCLONEDX=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

# What the user has set for builds of his own, in the environment or with `go env -w`, has no part in a release.
GOTOOLCHAIN=$(awk '$1 == "toolchain" { print $2 }' go.mod)
export GOTOOLCHAIN GOFLAGS="-trimpath -tags=nobadger,nomysql,nopgx" GOFIPS140=off GOAMD64=v1 GOARM64=v8.0
export GOOS=linux GOARCH=${GOARCH:-amd64} CGO_ENABLED=0
[ -z "$(go env GOEXPERIMENT)" ] || { echo "supply: GOEXPERIMENT is set, and no release has any" >&2; exit 1; }

say() { printf 'supply: %s\n' "$*" >&2; }

# native PROGRAM…: runs a Go program on this machine, whatever is built.
native() { GOOS='' GOARCH='' go run "$@"; }

# build OUT: Go takes the version from git: a tag, or what it calls a commit without one, with "+dirty" for a tree with changes.
build() { go build -trimpath -buildvcs=true -ldflags="-s -w" -o "$1" ./cmd/e2b-gateway; }

release() {
	mkdir -p bin
	build bin/e2b-gateway
	licences >bin/e2b-gateway.licences.txt
	(cd bin && sha256sum e2b-gateway e2b-gateway.licences.txt >e2b-gateway.sha256)
	go version -m bin/e2b-gateway | awk -v goarch="$GOARCH" '$1 == "mod" { print "supply: bin/e2b-gateway " $3 " for linux/" goarch }'
}

# licences prints the texts that must go with the binary, and the notices of those who ask for it.
licences() {
	printf '%s\n\n' "Licences of what is linked into e2b-gateway"
	{
		printf 'Go %s\n' "$(go env GOROOT)"
		go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}}@{{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/e2b-gateway | sort -u
	} | while read -r module dir; do
		find "$dir" -maxdepth 1 -type f -regextype posix-extended -iregex '.*/(un)?(licen[cs]e|copying|notice)([-.][^/]*)?' ! -name '*.go' | sort |
			while read -r file; do
				printf -- '---- %s: %s\n\n' "$module" "$(basename "$file")"
				cat "$file"
				echo
			done
	done
}

sbom() {
	local out=bin/e2b-gateway.cdx.json
	# It warns of what it cannot know: the licences of Go itself, and of this module where nobody serves it. Without a serial
	# number and a time, one binary has one bill of materials.
	native "$CYCLONEDX" bin -json -licenses -std -noserial -notimestamp -output "$out" bin/e2b-gateway
	go version -m -json bin/e2b-gateway | .cache/py-supply/bin/python integration/tools/sbom.py "$out"
}

# The database is that of vuln.go.dev, as the module golang.org/x/vulndb carries it: whoever can fetch modules can ask it, and the
# answer says of which day it is. VULNDB names another, such as https://vuln.go.dev.
vulnerabilities() {
	local db=${VULNDB:-} module
	if [ -z "$db" ]; then
		module=$(cd / && go mod download -json golang.org/x/vulndb@latest)
		db=file://$(sed -n 's/^\t"Dir": "\(.*\)",\?$/\1/p' <<<"$module")/data/osv
		say "database: $(sed -n 's/^\t"Version": "\(.*\)",\?$/\1/p' <<<"$module"), $(find "${db#file://}" -name 'GO-*.json' | wc -l) entries"
	fi
	# It fails, and prints the traces, for a vulnerable function that can be reached.
	native "$GOVULNCHECK" -db "$db" ./...
	planted "$db"
}

# planted: a check that finds nothing must be able to find something. golang.org/x/net v0.1.0 has known vulnerabilities.
planted() {
	local dir said
	dir=$(mktemp -d)
	said=$(
		cd "$dir"
		printf 'module planted\n\ngo 1.26.0\n\nrequire (\n\tgolang.org/x/net v0.1.0\n\tgolang.org/x/text v0.4.0\n)\n' >go.mod
		printf 'package main\n\nimport "golang.org/x/net/http2"\n\nfunc main() { (&http2.Server{}).ServeConn(nil, nil) }\n' >main.go
		GOFLAGS=-mod=mod native "$GOVULNCHECK" -db "$1" ./... 2>&1
	) || true # it fails, if it is right
	rm -rf "$dir"
	grep -q '^Your code is affected by' <<<"$said" || { say "a planted vulnerability was not found: $said"; return 1; }
	say "a planted vulnerability is found: $(grep '^Your code is affected by' <<<"$said")"
}

reproducible() {
	local dir commit
	dir=$(mktemp -d)
	# shellcheck disable=SC2064 # the directory that it is now
	trap "chmod -R u+w '$dir' && rm -rf '$dir'" EXIT
	commit=$(git rev-parse HEAD)
	[ -z "$(git status --porcelain)" ] || say "what is not committed has no part in this"
	for name in one another/place; do
		git clone --quiet --no-hardlinks . "$dir/$name"
		(cd "$dir/$name" && git checkout --quiet "$commit" && GOCACHE="$dir/cache-${name%%/*}" build "$dir/${name%%/*}.bin")
	done
	(cd "$dir" && sha256sum one.bin another.bin) >&2
	cmp "$dir/one.bin" "$dir/another.bin"
}

"$1"
