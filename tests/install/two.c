/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two copies of the library in one process, each opened by itself, both work:
 * none binds to the other's symbols. Usage: two FIRST.so SECOND.so
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <kiln/kiln.h>

/* The functions of one copy. */
struct copy {
	void *handle;
	enum kiln_status (*open)(struct kiln_device **, const char *);
	void (*release)(struct kiln_device *);
	enum kiln_status (*from_data)(struct kiln_tensor **,
				      struct kiln_device *, enum kiln_dtype,
				      int, const int64_t *, const void *,
				      size_t);
	enum kiln_status (*add)(struct kiln_tensor **, struct kiln_tensor *,
				struct kiln_tensor *);
	enum kiln_status (*read)(struct kiln_tensor *, void *, size_t);
	void (*drop)(struct kiln_tensor *);
};

/* ISO C has no conversion from an object pointer to one to a function. */
static int find(void *handle, const char *name, void *place)
{
	void *symbol = dlsym(handle, name);

	memcpy(place, &symbol, sizeof(symbol));
	return symbol != NULL;
}

static int load(struct copy *c, const char *path)
{
	c->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!c->handle)
		return 0;
	return find(c->handle, "kiln_device_open", &c->open) &&
	       find(c->handle, "kiln_device_release", &c->release) &&
	       find(c->handle, "kiln_tensor_from_data", &c->from_data) &&
	       find(c->handle, "kiln_add", &c->add) &&
	       find(c->handle, "kiln_tensor_read", &c->read) &&
	       find(c->handle, "kiln_tensor_release", &c->drop);
}

/* 21 + 21 by this copy. */
static int works(const struct copy *c)
{
	const int64_t shape[1] = { 1 };
	struct kiln_device *device = NULL;
	struct kiln_tensor *x = NULL;
	int32_t value = 21;
	int fine;

	fine = c->open(&device, "cpu") == KILN_OK &&
	       c->from_data(&x, device, KILN_I32, 1, shape, &value,
			    sizeof(value)) == KILN_OK &&
	       c->add(&x, x, x) == KILN_OK &&
	       c->read(x, &value, sizeof(value)) == KILN_OK && value == 42;
	c->drop(x);
	c->release(device);
	return fine;
}

int main(int argc, char **argv)
{
	struct copy first, second;

	if (argc != 3 || !load(&first, argv[1]) || !load(&second, argv[2])) {
		fprintf(stderr, "two: %s\n", dlerror());
		return 1;
	}
	if (first.handle == second.handle || first.open == second.open) {
		fprintf(stderr, "two: only one copy was loaded\n");
		return 1;
	}
	if (!works(&first) || !works(&second) || !works(&first)) {
		fprintf(stderr, "two: a copy does not work\n");
		return 1;
	}
	return 0;
}
