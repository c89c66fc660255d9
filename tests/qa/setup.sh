# shellcheck shell=sh disable=SC2034,SC2154
# SPDX-License-Identifier: Apache-2.0
#
# What ./run and ./check share: the packages they need, the build, progress.
# The one who reads this in has set top (the source tree) and me (its name).

# Debian's names, one list for what builds and runs, one for all the tests.
# A name after a colon is what shows that the package is there on a system
# without apt: a command, or a pkg-config module before which stands a +.
run_packages='build-essential:cc autoconf:autoreconf automake:automake
	libtool:libtoolize pkg-config:pkg-config zlib1g-dev:+zlib
	libhwloc-dev:+hwloc liburing-dev:+liburing libdrm-dev:+libdrm
	libjansson-dev:+jansson liblzma-dev:+liblzma clang:clang
	glslang-tools:glslangValidator spirv-tools:spirv-as
	libvulkan-dev:+vulkan xz-utils:xz dataset-fashion-mnist'
check_packages='check:+check libclang-rt-14-dev mandoc:mandoc
	man-db:lexgrog universal-ctags:ctags shellcheck:shellcheck
	codespell:codespell valgrind:valgrind python3:python3
	git:git g++:c++ mesa-vulkan-drivers vulkan-validationlayers
	qemu-user:qemu-aarch64
	gcc-aarch64-linux-gnu:aarch64-linux-gnu-gcc libc6-dev-arm64-cross'

say()
{
	printf '%s: %s\n' "$me" "$*"
}

die()
{
	printf '%s: %s\n' "$me" "$*" >&2
	exit 1
}

# missing PACKAGE[:SIGN]...: prints the names of those that are not here
missing()
{
	for entry; do
		name=${entry%%:*}
		sign=${entry#"$name"}
		sign=${sign#:}
		if command -v dpkg-query >/dev/null; then
			state=$(dpkg-query -W -f '${db:Status-Status}' \
				"$name" 2>/dev/null || :)
			[ "$state" = installed ] || echo "$name"
			continue
		fi
		case $sign in
		'') ;;
		+*) pkg-config --exists "${sign#+}" 2>/dev/null ||
			echo "$name" ;;
		*) command -v "$sign" >/dev/null || echo "$name" ;;
		esac
	done
}

# as_root COMMAND...
as_root()
{
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		sudo "$@"
	fi
}

# need PACKAGE[:SIGN]...: installs what is missing, or says what is
need()
{
	names=$(missing "$@" | tr '\n' ' ')
	[ -n "$names" ] || return 0
	command -v apt-get >/dev/null ||
		die "packages are missing (Debian's names): $names"
	[ "$(id -u)" = 0 ] || command -v sudo >/dev/null ||
		die "neither root nor sudo to install: $names"
	say "installing $names"
	log=$(mktemp)
	# A mirror may be short of breath; a second try costs little.
	for try in 1 2; do
		# shellcheck disable=SC2086 # a list of words
		as_root apt-get update >"$log" 2>&1 &&
			as_root env DEBIAN_FRONTEND=noninteractive apt-get \
				install -y --no-install-recommends \
				$names >>"$log" 2>&1 && break
		[ $try = 1 ] || {
			grep '^E:' "$log" >&2 || tail -n 5 "$log" >&2
			die "apt-get could not install: $names"
		}
	done
	rm -f "$log"
}

# jobs: how many processes a build runs
jobs()
{
	getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2
}

# steps WHAT LOG: shows how a make goes whose output comes on stdin
steps()
{
	live=0
	[ ! -t 1 ] || live=1
	tee "$2" | awk -v what="$1" -v live="$live" '
		BEGIN { step = live ? 1 : 50 }
		/^ +(CC|CXX|CCLD|GEN|CPPAS) / || /^(PASS|FAIL|SKIP|ERROR):/ {
			n++
			if (live)
				printf "\r%s: %d steps, %s %-40.40s", what, \
					n, $1, $2
			else if (n % step == 0)
				printf "%s: %d steps\n", what, n
			fflush()
		}
		/^libtool: warning/ { next }
		/^(FAIL|ERROR):/ || / (error|warning): / || /\*\*\* / {
			printf "%s%s\n", live && n ? "\n" : "", $0
			fflush()
		}
		END { if (live && n) printf "\n" }'
}

# make_in FOLDER WHAT ARGUMENT...: make with its progress shown
make_in()
{
	folder=$1
	what=$2
	shift 2
	rm -f "$folder/.failed"
	{
		make -C "$folder" -j"$(jobs)" "$@" 2>&1 ||
			touch "$folder/.failed"
	} | steps "$what" "$folder/make.log"
	[ ! -e "$folder/.failed" ]
}

# generate: configure and what else the tree needs before it can be built
generate()
{
	[ -e "$top/configure" ] && [ -e "$top/Makefile.in" ] && return
	say "generating configure"
	log=$(mktemp)
	(cd "$top" && autoreconf -i >"$log" 2>&1) || {
		cat "$log" >&2
		die "autoreconf failed"
	}
	rm -f "$log"
}

# configure_in FOLDER OPTION...: once; later makes reconfigure by themselves
configure_in()
{
	folder=$1
	shift
	mkdir -p "$folder"
	[ ! -e "$folder/Makefile" ] || return 0
	say "configuring $folder $*"
	# shellcheck disable=SC2086 # options, or none
	(cd "$folder" && "$top/configure" -q ${configure_more-} "$@" \
		>configure.out 2>&1) || {
		tail -n 5 "$folder/configure.out" >&2
		rm -f "$folder/Makefile"
		die "configure failed; see $folder/configure.out"
	}
}

# build: the library, the command and the example, in build/
build()
{
	generate
	configure_in "$top/build"
	say "building in build/"
	make_in "$top/build" build || die "the build failed; see build/make.log"
}
