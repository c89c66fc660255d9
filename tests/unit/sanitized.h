/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_SANITIZED_H
#define TESTS_UNIT_SANITIZED_H

#include <stdlib.h>

/*
 * Whether a sanitizer is built in: its runtime neither survives a fork of a
 * process with threads nor leaves room for tests of many GiB.
 */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* Whether the program runs many times slower than it was made for. */
#define IS_SLOW (SANITIZED || getenv("KILN_EMULATOR"))

#endif
