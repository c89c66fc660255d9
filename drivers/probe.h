/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_DRIVERS_PROBE_H
#define KILNI_DRIVERS_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

#include "drivers/pci.h"

/*
 * Which cards there are by what the kernel tells, and whether this process may
 * use them. Reads files and nothing else: no vendor library, no device node is
 * opened, so that a fork afterwards is safe. KILN_SYSFS_ROOT stands for "/".
 */

#define KILNI_VENDOR_NVIDIA 0x10de

struct kilni_card {
	struct kilni_pci pci;
	uint16_t vendor, device;  /* PCI ids */
	uint32_t class_code;      /* base class, subclass, interface */
	int numa_node;            /* -1: unknown */
	char cpus[128];           /* near ones, "0-7,16-23"; "" unknown */
	char name[128];           /* by the kernel driver or the PCI ids */
	char uuid[64];            /* by the kernel driver; "" unknown */
	char kernel_driver[32];   /* "" where none is bound */
	char link[64];            /* "32.0 GT/s PCIe x16"; "" unknown */
	uint64_t memory_bytes;    /* 0 unknown */
	char node[64];            /* what a program opens; "" where none */
	bool no_permission;       /* on node */
	char reason[192];         /* why nothing can use it; "" */
};

/*
 * Display controllers and accelerators, by address. *cards is freed with
 * free(). No PCI bus is no error: there are none. KILN_ERR_NO_MEMORY.
 */
enum kiln_status kilni_probe_cards(struct kilni_card **cards, size_t *count);

/*
 * Whether any GPU may be here: a card on the bus or a node of a GPU's kernel
 * driver, for not all are on PCI. False spares the start of vendors' libraries.
 */
bool kilni_probe_any_gpu(void);

/* ---- CUDA_VISIBLE_DEVICES ---- */

/*
 * Reads it as CUDA does (observed with its driver 580.159), against the UUIDs
 * of the cards in the order of CUDA's own numbers. Entries are separated by
 * commas, and are UUIDs or numbers as the first one is. The first that names
 * nothing ends the list; one that names a card again leaves nothing.
 *
 *	number    as strtoul reads it, cut to 32 bits; text after it is ignored
 *	GPU-...   the card whose UUID begins with these hex digits; it must be
 *	          the only one; dashes and capitals make no difference, text
 *	          after the 32nd digit is ignored
 *	MIG-...   a slice, or a card that is not cut; MIG-GPU-<uuid>/<gi>/<ci>
 *	          is a slice of that card
 *
 * order gets at most count places: the cards in order; KILNI_VISIBLE_SLICE
 * stands for an entry that only CUDA can tell the meaning of. Returns their
 * number. NULL text shows all.
 */
#define KILNI_VISIBLE_SLICE (-1)
size_t kilni_visible_cards(const char *text, const char *const *uuids,
			   size_t count, int *order);

/* Whether the list is of UUIDs. */
bool kilni_visible_by_uuid(const char *text);

/* False for a CUDA_DEVICE_ORDER with which CUDA refuses to start. */
bool kilni_visible_order_is_good(const char *text);

#endif
