/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILN_KILN_H
#define KILN_KILN_H

/* The whole public interface. */
#include <kiln/completion.h>
#include <kiln/device.h>
#include <kiln/dtype.h>
#include <kiln/event.h>
#include <kiln/export.h>
#include <kiln/file.h>
#include <kiln/graph.h>
#include <kiln/kernel.h>
#include <kiln/memory.h>
#include <kiln/ops.h>
#include <kiln/physical.h>
#include <kiln/plan.h>
#include <kiln/pool.h>
#include <kiln/profile.h>
#include <kiln/safetensors.h>
#include <kiln/status.h>
#include <kiln/stream.h>
#include <kiln/tensor.h>
#include <kiln/trace.h>
#include <kiln/transfer.h>
#include <kiln/version.h>
#include <kiln/view.h>

#endif
