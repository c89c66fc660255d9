# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0
#
# await COMMAND...: until the command succeeds, for a minute at most. A test
# waits for what it needs in no other way: nobody knows how long a loaded
# machine takes.
await()
{
	tries=0
	until "$@"; do
		tries=$((tries + 1))
		[ $tries -lt 1200 ] || return 1
		sleep 0.05
	done
}
