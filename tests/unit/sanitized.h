/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_SANITIZED_H
#define TESTS_UNIT_SANITIZED_H

#include <stdlib.h>

#include "base/sanitizer.h"

/*
 * Whether a sanitizer is built in: its runtime neither survives a fork of a
 * process with threads nor leaves room for tests of many GiB.
 */
#define SANITIZED (KILNI_ASAN || KILNI_TSAN)

/* Whether the program runs many times slower than it was made for. */
#define IS_SLOW (SANITIZED || getenv("KILN_EMULATOR"))

#endif
