/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILN_EXPORT_H
#define KILN_EXPORT_H

/*
 * Markers of the public interface. Everything that the shared library exports
 * carries KILN_API; everything that can fail carries KILN_MUST_CHECK.
 */
#if defined(__GNUC__)
#define KILN_API __attribute__((visibility("default")))
#define KILN_MUST_CHECK __attribute__((warn_unused_result))
#else
#define KILN_API
#define KILN_MUST_CHECK
#endif

#ifdef __cplusplus
#define KILN_BEGIN_DECLS extern "C" {
#define KILN_END_DECLS }
#else
#define KILN_BEGIN_DECLS
#define KILN_END_DECLS
#endif

#endif
