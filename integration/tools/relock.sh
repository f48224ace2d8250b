#!/usr/bin/env bash
# Writes the lock files anew, with the newest versions of everything below the SDKs; the SDKs' own versions are stated here
# and in integration/sdk/js/*/package.json. Only for the day a pin is moved; tests never run it.
#
# The locks hold digests and no addresses, so that they work with any mirror.
set -euo pipefail
cd "$(dirname "$0")/../.."
tools=$PWD/.cache/py-lock
[ -x "$tools/bin/pip-compile" ] || { python3 -m venv "$tools" && "$tools/bin/pip" install --quiet pip-tools==7.6.2; }

# lock FILE REQUIREMENT
lock() {
	"$tools/bin/pip-compile" --quiet --generate-hashes --strip-extras --no-header --no-annotate \
		--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --upgrade --output-file "$1" - <<<"$2"
}
lock integration/sdk/py/e2b-2.34.0.txt 'e2b==2.34.0'
lock integration/sdk/py/e2b-newest.txt 'e2b==2.63.0'
lock integration/tools/fakeredis.txt 'fakeredis[json]==2.41.0'
# pip's own resolver tries versions of these for ever.
[ -x "$tools/bin/uv" ] || "$tools/bin/pip" install --quiet uv==0.13.9
"$tools/bin/uv" pip compile --quiet --generate-hashes --no-header --no-annotate --no-emit-index-url --upgrade \
	--python-version 3.11 --output-file integration/realrock/rock.txt integration/realrock/rock.in
lock integration/tools/cyclonedx.txt 'cyclonedx-python-lib[json-validation]==11.12.0'

for project in integration/sdk/js/e2b-*; do
	rm -f "$project/package-lock.json"
	(cd "$project" && npm install --silent --package-lock-only --omit-lockfile-registry-resolved)
done
