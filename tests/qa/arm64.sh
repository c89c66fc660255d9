#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# arm64.sh FOLDER [OPTION...] - builds for arm64 there, configured so, and runs
# a few tests under qemu.
#
# The libraries' arm64 packages are unpacked into FOLDER/root by an apt that
# keeps its lists there too: the system gets no foreign architecture.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
me=arm64
# shellcheck source=tests/qa/setup.sh
. "$top/tests/qa/setup.sh"

packages='libhwloc-dev libhwloc15 libudev1 liburing-dev liburing2 libdrm-dev
	libdrm2 libjansson-dev libjansson4 check libsubunit-dev libsubunit0
	zlib1g-dev zlib1g liblzma-dev liblzma5'
folder=$1
shift
root=$folder/root
triplet=aarch64-linux-gnu

fetch()
{
	command -v apt-get >/dev/null ||
		die "needs apt for arm64 packages: $packages"
	say "fetching arm64 packages"
	state=$folder/apt
	mkdir -p "$state/lists/partial" "$state/cache/archives/partial" \
		"$state/debs"
	: >"$state/status"
	apt="-o APT::Architecture=arm64 -o APT::Architectures=arm64
		-o Dir::State=$state -o Dir::State::lists=$state/lists
		-o Dir::State::status=$state/status
		-o Dir::Cache=$state/cache -o APT::Sandbox::User=root"
	# shellcheck disable=SC2086 # lists of words
	(cd "$state/debs" && apt-get $apt update && rm -f ./*.deb &&
		apt-get $apt download $packages) >"$state/log" 2>&1 || {
		grep '^E:' "$state/log" >&2 || tail -n 5 "$state/log" >&2
		die "no arm64 packages"
	}
	rm -rf "$root.new"
	for deb in "$state"/debs/*.deb; do
		dpkg-deb -x "$deb" "$root.new"
	done
	# Links to libraries that lead to the root of the file system.
	find "$root.new" -type l | while read -r link; do
		target=$(readlink "$link")
		case $target in
		/*) ln -sf "$root$target" "$link" ;;
		esac
	done
	mv "$root.new" "$root"
}

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
root=$folder/root
[ -d "$root" ] || fetch

lib=$root/usr/lib/$triplet
PKG_CONFIG_LIBDIR=$lib/pkgconfig:$root/usr/share/pkgconfig
PKG_CONFIG_SYSROOT_DIR=$root
export PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR
configure_in "$folder" --host=$triplet --enable-werror \
	CPPFLAGS="-isystem $root/usr/include -isystem $root/usr/include/$triplet" \
	LDFLAGS="-L$lib -Wl,-rpath-link,$lib:$root/lib/$triplet" "$@"

# How a program for arm64 is run here.
run=$folder/qemu
cat >"$run" <<END
#!/bin/sh
exec qemu-aarch64 -L /usr/$triplet \\
	-E LD_LIBRARY_PATH=$folder/.libs:$lib:$root/lib/$triplet "\$@"
END
chmod +x "$run"
# Emulated code is some ten times slower than what the limits were set for. qemu
# keeps a book of every page: the 200 GB of addresses that a device takes where
# nothing caps its memory would cost seconds each time one is opened.
CK_TIMEOUT_MULTIPLIER=10 CHECK_QUICK=1 KILN_EMULATOR=$run \
	KILN_POOL_CAP_BYTES=1G \
	make_in "$folder" arm64 check-smoke \
	LOG_COMPILER="timeout -k 10 600 $run"
