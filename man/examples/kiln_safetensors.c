/* SPDX-License-Identifier: Apache-2.0 */
#include <kiln/kiln.h>
#include <stdio.h>

int main(void)
{
	struct kiln_device *device = NULL;
	struct kiln_tensor *w = KILN_TENSOR_NONE;
	struct kiln_safetensors *file = NULL;
	struct kiln_safetensors_content content =
		KILN_SAFETENSORS_CONTENT_INIT;
	const char *name = "layer.weight";
	const int64_t shape[] = { 2, 3 };

	if (kiln_device_open(&device, NULL) ||
	    kiln_full(&w, device, KILN_F32, 2, shape, kiln_float(0.5)))
		goto failed;
	content.count = 1;
	content.names = &name;
	content.tensors = &w;
	if (kiln_safetensors_save("model.safetensors", 0, &content) ||
	    kiln_safetensors_open(&file, "model.safetensors", 0) ||
	    kiln_safetensors_load(&w, file, name, device))
		goto failed;
	printf("%zu tensor, %s has %lld elements\n",
	       kiln_safetensors_count(file), name,
	       (long long)kiln_tensor_count(w));
	kiln_safetensors_release(file);
	kiln_tensor_release(w);
	kiln_device_release(device);
	return remove("model.safetensors");
failed:
	fprintf(stderr, "%s\n", kiln_error_message());
	return 1;
}
