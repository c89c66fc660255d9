/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILN_PHYSICAL_H
#define KILN_PHYSICAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/device.h>
#include <kiln/export.h>
#include <kiln/status.h>

KILN_BEGIN_DECLS

/*
 * Physical cards: each card of the machine once, with every device that is a
 * way to it. A card is known by its PCI address, dddd:bb:dd.f with at least
 * four digits of the domain, all of them small. Devices are never put together
 * by UUID; one without an address stands alone, and so does the CPU. The cards
 * are in the order of their addresses, those that stand alone come last.
 *
 * A listing is a snapshot and belongs to the caller. Texts are UTF-8, NULL
 * where a fact is unknown, and live as long as the listing. Any thread may
 * read it.
 */
struct kiln_physical;

/* A way to a card. */
struct kiln_card_device {
	enum kiln_device_type type;
	enum kiln_device_kind kind;
	unsigned index;          /* cuda: CUDA's own ordinal */
	bool slice;              /* a part of the card (MIG) */
	const char *selector;    /* opens it */
	const char *name;
	const char *uuid;
	uint64_t memory_bytes;   /* a slice's own; 0 unknown */
	const char *version;     /* of the vendor's driver */
	const char *refused;     /* what it lacks to be opened; NULL: nothing */
};

/* A driver that offers no way to a card, and why. */
struct kiln_card_absence {
	enum kiln_device_type type;
	const char *reason;
};

/* A card. More fields may follow in later versions. */
struct kiln_card {
	const char *pci;         /* NULL: it stands alone */
	const char *name;
	enum kiln_device_kind kind;
	unsigned vendor_id;      /* of PCI, 0 where it stands alone */
	unsigned device_id;
	const char *uuid;        /* by the kernel, or of its first device */
	uint64_t memory_bytes;   /* of the card, not of its slices; 0 unknown */
	int numa_node;           /* -1 unknown */
	const char *cpus;        /* near ones, "0-7,16-23" */
	const char *link;        /* "32.0 GT/s PCIe x16" */
	const char *kernel_driver;
	const char *node;        /* what is opened to use it */
	/* Present, but closed: what keeps it away; NULL: nothing known. */
	const char *unusable;
	bool no_permission;      /* that is the reason, and no device works */
	size_t device_count;
	const struct kiln_card_device *devices;
	size_t absence_count;
	const struct kiln_card_absence *absences;
};

/**
 * kiln_physical_list - the cards by what the kernel tells, without devices
 * @out: the new listing
 *
 * Reads files of /sys and /proc and nothing else. No library of a vendor is
 * loaded and no device node is opened, so that a fork afterwards is safe. A
 * card that CUDA_VISIBLE_DEVICES hides for certain says so among its absences.
 *
 * KILN_ERR_INVALID: out is NULL. KILN_ERR_NO_MEMORY. Thread-safe; does not
 * wait for hardware.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_physical_list(struct kiln_physical **out);

/**
 * kiln_physical_survey - the cards with the devices of every driver
 * @out: the new listing
 *
 * Asks the vendors' libraries too and puts both together by address. Opens no
 * device and makes no context. Those libraries do not survive a fork: a
 * process that forks calls this, if at all, in the child.
 *
 * KILN_ERR_INVALID: out is NULL. KILN_ERR_NO_MEMORY. A driver that fails or is
 * not here is no error but an absence. Thread-safe; may take some 100 ms.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_physical_survey(struct kiln_physical **out);

/** kiln_physical_release - frees a listing; NULL is allowed */
KILN_API void kiln_physical_release(struct kiln_physical *listing);

/** kiln_physical_count - number of cards. Cannot fail. Not NULL. */
KILN_API size_t kiln_physical_count(const struct kiln_physical *listing);

/**
 * kiln_physical_card - a card of a listing
 * @index: below kiln_physical_count
 *
 * NULL where there is none of that index. Valid while the listing lives.
 */
KILN_API const struct kiln_card *
kiln_physical_card(const struct kiln_physical *listing, size_t index);

/* Which card a device is on. Begins with its own size so that it may grow. */
struct kiln_identity {
	size_t struct_size;      /* set by the caller: sizeof */
	unsigned type_id;        /* 0 for the CPU */
	unsigned index_id;       /* among the devices of its type */
	enum kiln_device_kind kind;
	bool slice;              /* a part of the card (MIG) */
	char pci[32];            /* "" where it stands alone */
	char uuid[64];           /* "" where unknown; of a slice, its own */
};

/**
 * kiln_device_identity - which card a device is on
 * @identity: struct_size must be set
 *
 * The CPU has no address and the ids 0, 0. KILN_ERR_INVALID: identity is NULL
 * or of unknown size, or device is NULL. KILN_ERR_FORKED. Does not block.
 */
KILN_API KILN_MUST_CHECK enum kiln_status
kiln_device_identity(const struct kiln_device *device,
		     struct kiln_identity *identity);

/**
 * kiln_identity_same_card - whether two devices are ways to one card
 *
 * By address; devices without one only where they are the same device. False
 * where either is NULL. Cannot fail. Does not block.
 */
KILN_API bool kiln_identity_same_card(const struct kiln_identity *a,
				      const struct kiln_identity *b);

/** kiln_device_kind_name - "discrete", "integrated", ... as in selectors */
KILN_API const char *kiln_device_kind_name(enum kiln_device_kind kind);

KILN_END_DECLS

#endif
