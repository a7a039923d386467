#!/bin/sh
# progress.sh NAME WORDS COMMAND...: run a command, say every five seconds what it does, and how long it took.
#
# All that it prints goes to build/NAME.log, which is shown only if the command fails.
set -eu
name=$1 words=$2
shift 2
mkdir -p build
log=build/$name.log
began=$(date +%s)
echo "setup: $words"

"$@" >"$log" 2>&1 &
command=$!
trap 'kill $command 2>/dev/null' INT TERM

waited=0
while kill -0 $command 2>/dev/null; do
	sleep 0.2
	waited=$((waited + 1))
	if [ $((waited % 25)) -eq 0 ]; then
		echo "setup: $words, $(($(date +%s) - began)) s: $(tail -n 1 "$log" | cut -c 1-60)"
	fi
done

if wait $command; then
	echo "setup: $words: done in $(($(date +%s) - began)) s"
else
	cat "$log" >&2
	exit 1
fi
