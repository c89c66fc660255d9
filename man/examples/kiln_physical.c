/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>

/* Lists each card once, with the selectors that open it. */
int main(void)
{
	struct kiln_physical *listing;

	if (kiln_physical_survey(&listing)) {
		fprintf(stderr, "%s\n", kiln_error_message());
		return 1;
	}
	for (size_t i = 0; i < kiln_physical_count(listing); i++) {
		const struct kiln_card *card = kiln_physical_card(listing, i);

		printf("%s %s:", card->pci ? card->pci : "PCI unknown",
		       card->name);
		for (size_t n = 0; n < card->device_count; n++)
			printf(" %s", card->devices[n].selector);
		printf(" %s\n", card->unusable ? card->unusable : "");
	}
	kiln_physical_release(listing);
	return 0;
}
