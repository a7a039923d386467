#!/bin/sh
# create_venv.sh FOLDER PYTHON...: create a virtual environment with the first Python that can.
#
# A name without a slash is tried in every folder of PATH: not every python3 there is of use (a shim
# without its versions, a distribution's Python without ensurepip). uv needs no ensurepip.
set -eu
folder=$1
shift

candidates() {
	for name; do
		case $name in
		*/*) echo "$name" ;;
		*) echo "$PATH" | tr ':' '\n' | sed "s|\$|/$name|" ;;
		esac
	done
}

create() {
	[ -x "$1" ] && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || return 1
	rm -rf "$folder"
	if command -v uv; then
		uv venv --python "$1" "$folder"
	else
		"$1" -m venv "$folder" && "$folder/bin/python" -m pip --version
	fi
}

# From a file, not a pipe: what creates an environment must not read the list.
mkdir -p build
candidates "$@" >build/pythons
rm -f build/venv.log
while read -r python <&3; do
	if create "$python" >>build/venv.log 2>&1; then
		echo "setup: $("$folder/bin/python" --version) in $folder"
		exit 0
	fi
done 3<build/pythons

rm -rf "$folder"
echo "setup: no Python >= 3.11 on PATH can create a virtual environment" \
	"(on Debian: apt install python3-venv); choose one with: make PYTHON=/path/to/python3.11" >&2
exit 1
