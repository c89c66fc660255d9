/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_BASE_SANITIZER_H
#define KILNI_BASE_SANITIZER_H

/* What is built in: gcc tells by macros, clang by features. */

#if defined(__SANITIZE_ADDRESS__)
#define KILNI_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KILNI_ASAN 1
#endif
#endif
#ifndef KILNI_ASAN
#define KILNI_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__)
#define KILNI_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define KILNI_TSAN 1
#endif
#endif
#ifndef KILNI_TSAN
#define KILNI_TSAN 0
#endif

#endif
