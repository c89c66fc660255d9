/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_DRIVERS_PCI_H
#define KILNI_DRIVERS_PCI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * An address on the PCI bus, by which a card is known. The one reader and the
 * one writer of such addresses:
 *
 *	address  = [prefix] [domain ":"] bus ":" device "." function
 *	prefix   = "pci" (":" | "-" | " "), in capitals or not
 *	domain   = 1 to 8 hex digits, 0 where it is left out
 *	bus      = 1 or 2 hex digits
 *	device   = 1 or 2 hex digits, at most 1f
 *	function = 0 to 7
 *
 * Capital and small hex digits are alike, nothing stands before or after. It
 * covers "0000:82:00.0" (sysfs, Vulkan's numbers in print), "0000:3B:00.0"
 * (CUDA), "00000000:3B:00.0" (NVML), "pci:0000:01:00.0" (libdrm), "PCI 01:00.0"
 * (hwloc), "pci-0000:01:00.0" (udev), "10000:e1:00.0" (a domain beyond 16
 * bits), "82:00.0" (lspci). The decimal "PCI:1:0:0" of X is none.
 */
struct kilni_pci {
	uint32_t domain;
	uint8_t bus, device, function;
};

/* Bytes of the longest address with its 0: "ffffffff:ff:1f.7". */
#define KILNI_PCI_BYTES 17

/* False where text is NULL or no address; then *pci is left alone. */
bool kilni_pci_parse(const char *text, struct kilni_pci *pci);

/* "dddd:bb:dd.f": small hex digits, at least 4 of the domain. */
void kilni_pci_print(const struct kilni_pci *pci, char text[KILNI_PCI_BYTES]);

/* Order by domain, bus, device and function: below 0, 0 or above 0. */
int kilni_pci_compare(const struct kilni_pci *a, const struct kilni_pci *b);

#endif
