/* SPDX-License-Identifier: Apache-2.0 */
#include "mlp.h"

/* Parameters to and from a safetensors file. */

#define PARAMETERS 4

static const char *const names[PARAMETERS] = { "w1", "b1", "w2", "b2" };

static enum kiln_status save_views(const struct mlp *mlp, const char *path)
{
	struct kiln_tensor *const tensors[PARAMETERS] = {
		mlp->w1.value, mlp->b1, mlp->w2, mlp->b2
	};
	struct kiln_safetensors_content content =
		KILN_SAFETENSORS_CONTENT_INIT;

	content.count = PARAMETERS;
	content.names = names;
	content.tensors = tensors;
	return kiln_safetensors_save(path, 0, &content);
}

enum kiln_status mlp_save(struct mlp *mlp, const char *path)
{
	enum kiln_status status = mlp_view(mlp);

	if (!status)
		status = save_views(mlp, path);
	mlp_forget(mlp);
	return status;
}

/* The parameters stay where they are: Adam and the views know the place. */
static enum kiln_status load_views(struct mlp *mlp,
				   struct kiln_safetensors *file,
				   struct kiln_tensor **loaded)
{
	struct kiln_tensor *const tensors[PARAMETERS] = {
		mlp->w1.value, mlp->b1, mlp->w2, mlp->b2
	};
	struct kiln_device *device = kiln_tensor_device(mlp->w1.value);

	for (int i = 0; i < PARAMETERS; i++) {
		TRY(kiln_safetensors_load(loaded, file, names[i], device));
		TRY(kiln_copy_into(tensors[i], *loaded));
	}
	return KILN_OK;
}

enum kiln_status mlp_load(struct mlp *mlp, const char *path)
{
	struct kiln_safetensors *file = NULL;
	struct kiln_tensor *loaded = KILN_TENSOR_NONE;
	enum kiln_status status = kiln_safetensors_open(&file, path, 0);

	if (!status)
		status = mlp_view(mlp);
	if (!status)
		status = load_views(mlp, file, &loaded);
	kiln_tensor_clear(&loaded);
	kiln_safetensors_release(file);
	mlp_forget(mlp);
	return status;
}
