#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A software Vulkan device as if it had a queue family for transfers, which
# copies while kernels run (tests/stubs/transfers.c): whatever goes by way of
# staging memory or of marked memory, copies that take long, calls that fail.
set -eu
[ -z "${CHECK_QUICK-}" ] || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/vulkan/second_family.sh
. "${srcdir:?}/tests/vulkan/second_family.sh"

# run TEST [NAME=VALUE...]
run()
{
	test=$1
	shift
	echo "== $test $*"
	code=0
	env KILN_VULKAN_STAGING=1 KILN_TEST_DEVICE=vulkan:cpu "$@" \
		"${builddir:?}/tests/unit/$test" > "$work/out" 2>&1 || code=$?
	[ $code = 0 ] || {
		cat "$work/out"
		exit $code
	}
	if grep -e 'skipped: .*no queue for transfers' -e 'Checks: 0,' \
		"$work/out"; then
		echo "that is not left out here"
		exit 1
	fi
}

run t_vulkan_gpu
run t_vulkan_gpu KILN_STUB_TRANSFER_US=500 CK_RUN_CASE=staging
run t_vulkan CK_RUN_CASE=staging
run t_vulkan CK_RUN_CASE=hung
run t_vulkan CK_RUN_CASE=sweep
run t_transfer
run t_transfer KILN_STUB_TRANSFER_US=500
run t_streams
run t_model_streams KILN_STUB_TRANSFER_US=500
run t_graph CK_RUN_CASE=graphs
