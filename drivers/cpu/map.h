/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_CPU_MAP_H
#define KILNI_CPU_MAP_H

#include "drivers/driver.h"

/* The memory table's mapping slots, and what memory.c does for them. */

/* A huge page: attached memory keeps its huge pages when it moves. */
#define KILNI_CPU_MAP_GRANULARITY ((uint64_t)2 << 20)

enum kiln_status kilni_cpu_map_reserve(struct kilni_hw *hw, uint64_t bytes,
				       uint64_t *address);
void kilni_cpu_map_unreserve(struct kilni_hw *hw, uint64_t address,
			     uint64_t bytes);
enum kiln_status kilni_cpu_map_create(struct kilni_hw *hw, uint64_t bytes,
				      uint64_t *memory);
void kilni_cpu_map_destroy(struct kilni_hw *hw, uint64_t memory,
			   uint64_t bytes);
enum kiln_status kilni_cpu_map_attach(struct kilni_hw *hw, uint64_t address,
				      uint64_t bytes, uint64_t memory);
enum kiln_status kilni_cpu_map_detach(struct kilni_hw *hw, uint64_t address,
				      uint64_t bytes, uint64_t memory);

/* Pages for a device's use, anywhere; NULL with errno set. */
void *kilni_cpu_map_pages(struct kilni_hw *hw, uint64_t bytes);
/* Fresh ones in place of what lies at base; false with errno set. */
bool kilni_cpu_fresh_pages(struct kilni_hw *hw, void *base, uint64_t bytes);

#endif
