/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/internal.h"

/*
 * A treap: a search tree by (size, address) that is a heap by random priority,
 * so that it is balanced without bookkeeping.
 */

static bool is_before(const struct kilni_block *a, const struct kilni_block *b)
{
	if (a->size != b->size)
		return a->size < b->size;
	return a->address < b->address;
}

/* Hangs what comes before and after block from the tree under it. */
static void split_under(struct kilni_block *tree, struct kilni_block *block)
{
	struct kilni_block **low = &block->left, **high = &block->right;

	while (tree) {
		if (is_before(tree, block)) {
			*low = tree;
			low = &tree->right;
			tree = tree->right;
		} else {
			*high = tree;
			high = &tree->left;
			tree = tree->left;
		}
	}
	*low = NULL;
	*high = NULL;
}

void kilni_tree_insert(struct kilni_block **root, struct kilni_block *block)
{
	while (*root && (*root)->priority >= block->priority)
		root = is_before(block, *root) ? &(*root)->left
					       : &(*root)->right;
	split_under(*root, block);
	*root = block;
}

void kilni_tree_remove(struct kilni_block **root, struct kilni_block *block)
{
	struct kilni_block *low = block->left, *high = block->right;

	while (*root != block)
		root = is_before(block, *root) ? &(*root)->left
					       : &(*root)->right;
	while (low && high) {
		if (low->priority > high->priority) {
			*root = low;
			root = &low->right;
			low = low->right;
		} else {
			*root = high;
			root = &high->left;
			high = high->left;
		}
	}
	*root = low ? low : high;
}

struct kilni_block *kilni_tree_fit(struct kilni_block *root, uint64_t size)
{
	struct kilni_block *best = NULL;

	while (root) {
		if (root->size >= size) {
			best = root;
			root = root->left;
		} else {
			root = root->right;
		}
	}
	return best;
}

struct kilni_block *kilni_tree_next(struct kilni_block *root,
				    const struct kilni_block *block)
{
	struct kilni_block *next = NULL;

	while (root) {
		if (is_before(block, root)) {
			next = root;
			root = root->left;
		} else {
			root = root->right;
		}
	}
	return next;
}

struct kilni_block *kilni_tree_largest(struct kilni_block *root)
{
	while (root && root->right)
		root = root->right;
	return root;
}
