#!/bin/sh
# Measures acpgate side by side with the simplest programs that could do its job, and prints a table with what was
# reached and what is wanted. BENCHMARKS.md, beside this file, explains the rows. Linux only; takes about 20 minutes, and the
# machine should have nothing else to do.
#
#   sh deploy/bench.sh [--quick] [--only NAME,...] [--rounds N] [--profile DIR] [--strict]
#
#   --quick        small sizes and one round: a smoke test of half a minute, whose figures mean nothing
#   --only NAMES   only these rows: line block line4k block4k clients50 clients500 paced beside roundtrip connect memory
#                  replay big deaf
#   --rounds N     rounds, of which the median counts (default 5)
#   --profile DIR  write profiles of the gateway's runs to DIR, for go tool pprof
#   --strict       exit with status 1 if a target is missed
set -eu

case " $* " in
*" -h "* | *" --help "*)
	sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
	exit 0
	;;
esac

root=$(cd "$(dirname "$0")/.." && pwd)
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

(cd "$root" && go build -o "$build/acpgate" ./cmd/acpgate && go build -o "$build/bench" ./deploy/bench)
# 10,000 connections are as many open files, in the gateway and in its client.
ulimit -n "$(ulimit -Hn)"
"$build/bench" suite --acpgate "$build/acpgate" "$@"
