#!/bin/sh
# Checks a clone from end to end: format, static analysis, builds, tests with the race detector, the page and its
# committed build, and the whole product in Chromium. Installs what it misses through apt (as root, on Debian and its
# kin) and npm. Ends with a line "N passed, M failed" and fails when M is not 0.
#
#   sh deploy/check.sh [--fast] [--vuln] [--agents DIR]
#
#   --fast         leave out the race detector, the rebuild of the page and the browser
#   --vuln         also ask the vulnerability database about the dependencies (needs the network)
#   --agents DIR   also run real agents, installed in DIR, through the gateway
set -u

usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; }

fast= vuln= agents=
while [ $# -gt 0 ]; do
	case $1 in
	--fast) fast=1 ;;
	--vuln) vuln=1 ;;
	--agents)
		if [ $# -lt 2 ] || [ ! -d "$2" ]; then
			echo "check.sh: --agents needs an existing folder" >&2
			exit 2
		fi
		agents=$(cd "$2" && pwd)
		shift
		;;
	-h | --help)
		usage
		exit 0
		;;
	*)
		echo "check.sh: unknown option $1" >&2
		usage >&2
		exit 2
		;;
	esac
	shift
done

cd "$(dirname "$0")/.." || exit 1
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
: >"$scratch/summary"
passed=0 failed=0 begin=$(date +%s)

# stage NAME COMMAND... runs COMMAND, leaves its outcome in $outcome and its time in the summary, and goes on whatever the
# outcome was. It must stand alone: as a condition (if, ||, &&) the shell would ignore the set -e in it.
stage() {
	stage_name=$1
	shift
	printf '\n== %s\n' "$stage_name"
	stage_begin=$(date +%s)
	(
		set -e
		"$@"
	)
	if [ $? = 0 ]; then
		passed=$((passed + 1)) outcome=ok
	else
		failed=$((failed + 1)) outcome=FAILED
	fi
	printf '%-12s %-7s %4d s\n' "$stage_name" "$outcome" $(($(date +%s) - stage_begin)) >>"$scratch/summary"
	tail -n 1 "$scratch/summary"
}

have() { command -v "$1" >/dev/null 2>&1; }

have_chromium() {
	[ -n "${CHROMIUM:-}" ] || have chromium || have chromium-browser || have google-chrome
}

# need_tools installs what is missing, or names it.
need_tools() {
	missing=
	have gcc || missing="$missing gcc libc6-dev" # the race detector links with it
	have node && have npm || missing="$missing nodejs npm"
	have bwrap || missing="$missing bubblewrap"
	have redis-server || missing="$missing redis-server" # the tests start their own
	[ -n "$fast" ] || have_chromium || missing="$missing chromium"
	if [ -n "$missing" ]; then
		if [ "$(id -u)" = 0 ] && have apt-get; then
			echo "installing$missing"
			apt-get update -qq
			# shellcheck disable=SC2086 # a list of words
			DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
		else
			echo "missing:$missing (not root, or no apt-get here: install them by hand)" >&2
		fi
	fi
	if ! have go; then
		echo "missing: Go, version $(sed -n 's/^go //p' go.mod) or later" >&2
		exit 1
	fi
	go version
	echo "node $(node --version), npm $(npm --version)"
}

tool() { go tool -modfile=deploy/tools/go.mod "$@"; }

check_format() {
	unformatted=$(tool gofumpt -l agentpool cmd deploy gateway sessions web/*.go)
	if [ -n "$unformatted" ]; then
		printf 'not in gofumpt style:\n%s\n' "$unformatted" >&2
		exit 1
	fi
	go mod tidy -diff
}

check_darwin() {
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 go build ./...
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 go vet ./...
}

# page_install runs npm ci unless the installed packages are those of the lock file.
page_install() {
	cd web
	if ! cmp -s package-lock.json node_modules/.installed-lock.json; then
		npm ci --no-audit --no-fund
		cp package-lock.json node_modules/.installed-lock.json
	fi
}

page_types() { cd web && npm run --silent typecheck; }
page_tests() { cd web && npm test --silent; }
page_browser() { cd web && npm run --silent e2e; }

# page_build builds the page beside the committed build and compares the two, byte for byte.
page_build() {
	cd web
	npm run --silent build -- --outDir "$scratch/page" --emptyOutDir
	diff -r dist "$scratch/page" || {
		echo "web/dist is not what the sources give: run npm run build in web/ and commit it" >&2
		exit 1
	}
}

stage tools need_tools
if [ "$outcome" != ok ]; then
	printf '\n%d passed, %d failed\n' "$passed" "$failed"
	exit 1
fi
stage format check_format
stage vet go vet ./...
stage staticcheck tool staticcheck ./...
stage darwin check_darwin
if [ -n "$vuln" ]; then
	stage vuln tool govulncheck ./...
fi
if [ -n "$fast" ]; then
	stage go-test go test ./...
else
	stage go-test go test -race ./...
fi
stage page-install page_install
if [ "$outcome" = ok ]; then
	stage page-types page_types
	stage page-tests page_tests
	if [ -z "$fast" ]; then
		stage page-build page_build
		stage browser page_browser
	fi
fi
if [ -n "$agents" ]; then
	stage agents node deploy/agents-check.mjs "$agents"
fi

printf '\n== summary\n'
cat "$scratch/summary"
printf 'in all %d s\n\n%d passed, %d failed\n' $(($(date +%s) - begin)) "$passed" "$failed"
[ "$failed" = 0 ]
