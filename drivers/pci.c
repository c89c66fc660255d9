/* SPDX-License-Identifier: Apache-2.0 */
#include "drivers/pci.h"

#include <stdio.h>
#include <string.h>

/* Value of a hex digit, -1 for anything else; whatever the locale. */
static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Reads 1 to most digits; 0 where there are none or more. */
static size_t read_hex(const char *text, size_t most, uint32_t *value)
{
	size_t length = 0;

	*value = 0;
	for (; digit(text[length]) >= 0; length++) {
		if (length == most)
			return 0;
		*value = *value << 4 | (uint32_t)digit(text[length]);
	}
	return length;
}

static const char *skip_prefix(const char *text)
{
	for (size_t i = 0; i < 3; i++)
		if ((text[i] | 0x20) != "pci"[i])
			return text;
	return text[3] && strchr(":- ", text[3]) ? text + 4 : text;
}

/* Reads "dd.f" up to the end of the text. */
static bool read_tail(const char *text, struct kilni_pci *pci)
{
	uint32_t device;
	size_t length = read_hex(text, 2, &device);

	text += length;
	if (!length || device > 0x1f || text[0] != '.' || text[1] < '0' ||
	    text[1] > '7' || text[2])
		return false;
	pci->device = (uint8_t)device;
	pci->function = (uint8_t)(text[1] - '0');
	return true;
}

bool kilni_pci_parse(const char *text, struct kilni_pci *pci)
{
	struct kilni_pci found = { .domain = 0 };
	uint32_t first, second;
	size_t head, length;

	if (!text)
		return false;
	text = skip_prefix(text);
	head = read_hex(text, 8, &first);
	if (!head || text[head] != ':')
		return false;
	text += head + 1;
	length = read_hex(text, 2, &second);
	if (length && text[length] == ':') {
		found.domain = first;
		first = second;
		head = length;
		text += length + 1;
	}
	if (head > 2 || !read_tail(text, &found))
		return false;
	found.bus = (uint8_t)first;
	*pci = found;
	return true;
}

void kilni_pci_print(const struct kilni_pci *pci, char text[KILNI_PCI_BYTES])
{
	snprintf(text, KILNI_PCI_BYTES, "%04x:%02x:%02x.%x", pci->domain,
		 pci->bus, pci->device & 0x1fu, pci->function & 7u);
}

int kilni_pci_compare(const struct kilni_pci *a, const struct kilni_pci *b)
{
	uint64_t x = (uint64_t)a->domain << 24 | (uint64_t)a->bus << 16 |
		     (uint64_t)a->device << 8 | a->function;
	uint64_t y = (uint64_t)b->domain << 24 | (uint64_t)b->bus << 16 |
		     (uint64_t)b->device << 8 | b->function;

	return (x > y) - (x < y);
}
