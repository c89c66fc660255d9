/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KILNI_BASE_H
#define KILNI_BASE_H

/* What lies below everything: errors, log, options, faults, small helpers. */

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <kiln/status.h>

#define KILNI_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define KILNI_LIKELY(x) __builtin_expect(!!(x), 1)
#define KILNI_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define KILNI_COUNTOF(a) (sizeof(a) / sizeof((a)[0]))

/* Passes a failure on; the callee has recorded it. */
#define KILNI_TRY(expr)                                                        \
	do {                                                                   \
		enum kiln_status kilni_try_ = (expr);                          \
		if (KILNI_UNLIKELY(kilni_try_ != KILN_OK))                     \
			return kilni_try_;                                     \
	} while (0)

/* ---- error record ---- */

/*
 * Records a failure in the calling thread's error record and returns its
 * status. Called once, by whoever turns a fact into an error; native is the
 * errno or vendor code behind it, or 0.
 */
enum kiln_status kilni_fail(enum kiln_status status, int native,
			    const char *fmt, ...) KILNI_PRINTF(3, 4);

/* The same; never gives KILN_OK, and the compiler can see that. */
#define kilni_fail(...)                                                        \
	__extension__({                                                        \
		enum kiln_status kilni_fail_ = (kilni_fail)(__VA_ARGS__);      \
		if (kilni_fail_ == KILN_OK)                                    \
			kilni_fail_ = KILN_ERR_INTERNAL;                       \
		kilni_fail_;                                                   \
	})

/* A copy of the record, for a failure that is made good afterwards. */
struct kilni_error_record {
	enum kiln_status status;
	int native;
	char message[512];
};

void kilni_error_save(struct kilni_error_record *copy);
void kilni_error_restore(const struct kilni_error_record *copy);

/* ---- text ---- */

/*
 * Copies a text of any origin as UTF-8: each byte that is none becomes U+FFFD.
 * What does not fit is left out, whole characters only; size is not 0.
 */
void kilni_utf8_copy(char *to, size_t size, const char *from);

/* ---- log ---- */

enum kilni_log_level {
	KILNI_LOG_NONE,
	KILNI_LOG_ERROR,
	KILNI_LOG_WARN,
	KILNI_LOG_INFO,
	KILNI_LOG_DEBUG
};

/*
 * The level that KILN_LOG names. KILN_ERR_OPTION: it names none; the record is
 * left alone, since recording logs.
 */
enum kiln_status kilni_log_level(enum kilni_log_level *level);

/* One line on stderr where KILN_LOG asks for that level; silent by default. */
void kilni_log(enum kilni_log_level level, const char *fmt, ...)
	KILNI_PRINTF(2, 3);

/* ---- options ---- */

enum kilni_option {
#define KILNI_OPTION(ID, name, scope, type, low, high, doc) KILNI_OPT_##ID,
#include "base/options.def"
	KILNI_OPT_COUNT
};

/* One row of the table, for `kiln info` and kiln-env(7). */
struct kilni_option_info {
	const char *name;
	bool of_device;   /* also an option of one device */
	const char *type; /* "text", "number", "bytes" or "share" */
	uint64_t low, high;
	const char *doc;
};

extern const struct kilni_option_info kilni_options[KILNI_OPT_COUNT];

/*
 * Value of the variable, or NULL where it is unset or empty; an option of the
 * device that is being opened goes before it.
 */
const char *kilni_option_text(enum kilni_option option);

/*
 * Reads a number (decimal) or a size in bytes (decimal with an optional K, M,
 * G or T, powers of 1024). Leaves *value as it is where the variable is unset.
 * KILN_ERR_OPTION: malformed or outside low..high; the message quotes it.
 */
enum kiln_status kilni_option_number(enum kilni_option option, uint64_t *value);

/*
 * The same for a share of whole: a size in bytes, or a fraction with a decimal
 * point, above 0 and at most 1.
 */
enum kiln_status kilni_option_share(enum kilni_option option, uint64_t whole,
				    uint64_t *value);

/*
 * Reads a size in bytes as above at *text, which moves behind it. false:
 * there is none, or it is too large; *text has not moved.
 */
bool kilni_parse_bytes(const char **text, uint64_t *value);

/*
 * Options that were given for a device, "pages=plain spin_us=5": names as in
 * the table, in lower case and without KILN_. KILN_ERR_OPTION.
 */
struct kilni_option_set;
enum kiln_status kilni_option_set_parse(struct kilni_option_set **out,
					const char *text, const char *fn);
void kilni_option_set_free(struct kilni_option_set *set);
/*
 * From here on what the set holds goes before the environment on the calling
 * thread; returns the one that was in use, or NULL.
 */
const struct kilni_option_set *
kilni_option_set_use(const struct kilni_option_set *set);
/* What the set in use holds for the option, or NULL. */
const char *kilni_option_set_value(enum kilni_option option);
/* KILN_ERR_ALREADY_INITIALIZED: asked holds what have does not. */
enum kiln_status kilni_option_set_check(const struct kilni_option_set *asked,
					const struct kilni_option_set *have,
					const char *fn);

/* Checks every variable of the table; warns of unknown KILN_ names. */
enum kiln_status kilni_options_check(void);

/* ---- fault injection ---- */

/*
 * Every call of a driver and every page allocation passes through
 * KILNI_FAULT(site): it gives the status to fail with, or KILN_OK.
 *
 * KILN_FAULT=SITE:N:STATUS makes the Nth pass (from 1) through SITE fail;
 * SITE "*" counts all sites. kilni_fault_set does the same from a test; N 0
 * switches off. kilni_fault_passes counts the passes since it was set.
 */
enum kiln_status kilni_fault(const char *site);
enum kiln_status kilni_fault_set(const char *site, uint64_t nth,
				 enum kiln_status status);
uint64_t kilni_fault_passes(void);

/* Arms what KILN_FAULT asks for. KILN_ERR_OPTION: malformed. */
enum kiln_status kilni_fault_from_environment(void);
extern int kilni_fault_armed;
#define KILNI_FAULT(site)                                                      \
	(KILNI_UNLIKELY(__atomic_load_n(&kilni_fault_armed, __ATOMIC_RELAXED)) \
		 ? kilni_fault(site)                                           \
		 : KILN_OK)

/* ---- fork ---- */

/*
 * Number of forks between the first process and this one. An object remembers
 * the value at its birth; where it differs the object was inherited.
 */
extern unsigned kilni_fork_epoch;

/* Starts counting; idempotent, thread-safe. */
void kilni_fork_watch(void);

/* ---- spinning ---- */

/* Tells the core that this is a spin loop. */
static inline void kilni_pause(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Waits for a lock that somebody holds, and takes it. */
void kilni_spin_wait(int *lock);

/* A lock that is held for a few instructions; 0: free. */
static inline void kilni_spin_lock(int *lock)
{
	if (KILNI_UNLIKELY(__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE)))
		kilni_spin_wait(lock);
}

static inline void kilni_spin_unlock(int *lock)
{
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

/* ---- arithmetic ---- */

static inline uint64_t kilni_min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t kilni_max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline uint64_t kilni_div_up(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

/* align is a power of two; the caller has checked that it does not wrap. */
static inline uint64_t kilni_align_up(uint64_t value, uint64_t align)
{
	return (value + align - 1) & ~(align - 1);
}

/* Nanoseconds of the monotonic clock. */
uint64_t kilni_now_ns(void);

#endif
