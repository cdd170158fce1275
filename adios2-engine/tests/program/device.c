/* A stand-in for a GPU and its runtime: memory that crashes whoever reads it without the runtime,
 * whose work is done no sooner than someone waits for it, in the order that was asked for. It
 * counts what is used wrongly. Kernels are the engine's own (kernels.cpp). With -DHIP it is called
 * as AMD's library is, else as CUDA's driver.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum
{
    fine = 0,
    invalid_value = 1,
    out_of_context = 201,
    no_binary = 209,
    illegal_address = 700,
    registered_already = 712,
    is_past_host = 50, /* where the device sees the host's memory: so many bits up */
    out_of_memory = 2,
    most = 8 << 20,   /* the program's */
    whole = 32 << 20, /* with what is given */
    many = 1 << 14
};

static char shadow[whole]; /* what the device has */
static char *device;       /* where the program sees it */
static int wrong;

static int is_wrong(const char *what)
{
    fprintf(stderr, "stand-in of a GPU: %s\n", what);
    ++wrong;
    return invalid_value;
}

/** What was used wrongly, and what is still open. */
int device_wrong(void);

static int is_ours(const void *memory)
{
    return device != NULL && (const char *)memory >= device &&
           (const char *)memory < device + whole;
}

static void begin_device(void)
{
    if (device == NULL)
        device = mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/** Where the stand-in has what lies on the device, for another one (gpu_fabric.c); null: elsewhere.
 */
char *device_shadow(const void *memory)
{
    return is_ours(memory) ? shadow + ((const char *)memory - device) : NULL;
}

/** Memory on the device, with a copy of the host's in it. */
void *device_copy_of(const void *host, size_t bytes)
{
    begin_device();
    memmove(shadow, host, bytes);
    return device;
}

/* What the program has queued: what the device's memory becomes. */
static struct
{
    void *values;
    size_t bytes;
    int after; /* how many copies it comes after */
} works[many];
static int queued, on_default, worked;
static int held; /* how many copies those come after that are queued from now on */

struct stream
{
    int after;  /* how much of the program's work its own comes after */
    int copies; /* and how many of the copies on the program's streams */
};
static struct stream programs;

/** A stream of the program's for which its default one doesn't wait. */
void *device_stream(void) { return &programs; }

/** Lets the device's memory become something else, when a stream comes to that. */
void device_becomes(const void *host, size_t bytes, void *stream)
{
    works[queued].values = memcpy(malloc(bytes), host, bytes);
    works[queued].after = held;
    works[queued++].bytes = bytes;
    *(stream ? &programs.after : &on_default) = queued;
}

static void finish(int end);

static void work_until(int end)
{
    for (; worked < end; ++worked)
    {
        finish(works[worked].after);
        memcpy(shadow, works[worked].values, works[worked].bytes);
    }
}

/** Lets the device do all that was queued on its default stream, as early as it may. */
void device_works(void) { work_until(queued); }

static struct range
{
    char *begin;
    size_t bytes;
} registered[many], given[many];
static int locks, registrations, pieces, folds;
static size_t given_bytes;

/** Bytes that are given now, and how many kernels have folded. */
size_t device_given(void) { return given_bytes; }
int device_folds(void) { return folds; }

static int is_given(const void *memory)
{
    for (int i = 0; i < pieces; ++i)
        if (given[i].begin <= (const char *)memory &&
            (const char *)memory < given[i].begin + given[i].bytes)
            return 1;
    return 0;
}

/** Gives the first gap. */
static int allocate(void **memory, size_t bytes)
{
    const char *limit = getenv("DEVICE_BYTES");
    size_t at = most;
    if (limit && given_bytes + bytes > strtoul(limit, NULL, 10))
        return out_of_memory;
    begin_device();
    for (int i = 0; i < pieces; ++i)
        if (given[i].begin < device + at + bytes && device + at < given[i].begin + given[i].bytes)
        {
            at = (given[i].begin + given[i].bytes - device + 255) / 256 * 256;
            i = -1; /* it may lie in one that was looked at */
        }
    if (at + bytes > whole || pieces == many)
        return out_of_memory;
    *memory = given[pieces].begin = device + at;
    given[pieces++].bytes = bytes;
    given_bytes += bytes;
    memset(shadow + at, 0xaa, bytes); /* nothing that counts */
    return fine;
}

/** How often memory was registered. */
int device_registrations(void) { return registrations; }

static int has_registered(const char *begin, size_t bytes)
{
    for (int i = 0; i < locks; ++i)
        if (registered[i].begin <= begin &&
            begin + bytes <= registered[i].begin + registered[i].bytes)
            return 1;
    return 0;
}

struct event
{
    int after, copies;
};
static struct copy
{
    char *target;
    const char *source;
    size_t pitch, row_bytes, rows;
    int after, is_programs; /* stream it is on */
    void *kernel, *task;    /* if it is a kernel's */
    int folds;
} copies[many];
static int begun, done, streams, events, modules, launches, unregistered, failed;

/** How many copies went to memory that isn't registered. */
int device_unregistered(void) { return unregistered; }

/** How many kernels were begun. */
int device_launches(void) { return launches; }

/** How many copies were begun, with kernels. */
int device_copies(void) { return begun; }

/** How many are under way that don't fold. */
int device_copying(void)
{
    int copying = 0;
    for (int i = done; i < begun; ++i)
        copying += !copies[i].folds;
    return copying;
}

/** How many of them are done. */
int device_done(void) { return done; }

int device_wrong(void) { return wrong + streams + events + modules + locks + pieces; }

static int is_inside(void);

static int check(const char *what) { return is_inside() ? fine : is_wrong(what); }

static int open_stream(void **stream, unsigned flags)
{
    if (flags != 1 || check("a stream of no context"))
        return is_wrong("a stream that others wait for");
    *stream = calloc(1, sizeof(struct stream));
    ++streams;
    return fine;
}

/* In kernels.cpp. */
void run_range(void *kernel, const void *task, ptrdiff_t shadow, uintptr_t mapped);
unsigned look_at_range(const void *task, unsigned number, const char **first, size_t *bytes,
                       void **ranges);
unsigned range_task_bytes(void);
void run_fold_there(void *kernel, const void *task, ptrdiff_t shadow);
unsigned look_at_fold(const void *task, const void **places);
unsigned fold_task_bytes(void);

static int release(void *memory)
{
    if (done < begun)
        return is_wrong("memory is given back while the device works");
    for (int i = 0; i < pieces; ++i)
        if (given[i].begin == memory)
        {
            given_bytes -= given[i].bytes;
            given[i] = given[--pieces];
            return is_inside() ? fine : is_wrong("memory is given back in no context");
        }
    return is_wrong("memory is given back that isn't given");
}

static void finish(int end)
{
    for (; done < end; ++done)
    {
        const struct copy *copy = &copies[done];
        work_until(copy->after);
        if (copy->folds)
            run_fold_there(copy->kernel, copy->task, shadow - device);
        else if (copy->kernel)
            run_range(copy->kernel, copy->task, shadow - device, (uintptr_t)1 << is_past_host);
        for (size_t row = 0; row < copy->rows && !copy->kernel; ++row)
            memcpy(copy->target + row * copy->row_bytes, copy->source + row * copy->pitch,
                   copy->row_bytes);
        failed = failed || copy->row_bytes * copy->rows == 8 * 17; /* a size at which it fails */
    }
}

static int close_stream(void *stream)
{
    if (done < begun)
        return is_wrong("a stream is closed while it copies");
    free(stream);
    --streams;
    return fine;
}

static int wait_for_stream(void *stream)
{
    (void)stream;
    finish(begun);
    return failed ? illegal_address : fine;
}

static int open_event(void **event, unsigned flags)
{
    if (flags != 2 || check("an event of no context"))
        return is_wrong("an event that takes times");
    *event = calloc(1, sizeof(struct event));
    ++events;
    return fine;
}

static int close_event(void *event)
{
    free(event);
    --events;
    return fine;
}

static int is_programs(const struct stream *stream)
{
    return stream == NULL || stream == &programs;
}

static int record(struct event *event, const struct stream *stream)
{
    event->after = stream ? stream->after : on_default;
    event->copies = begun;
    return check("an event in no context");
}

static int let_wait(struct stream *stream, const struct event *event, unsigned flags)
{
    if (is_programs(stream))
        held = event->copies > held ? event->copies : held;
    else
    {
        stream->after = event->after > stream->after ? event->after : stream->after;
        stream->copies = event->copies > stream->copies ? event->copies : stream->copies;
    }
    return flags ? is_wrong("flags of a wait") : fine;
}

/** Whether a stream's work comes after all copies on the program's streams into some memory. */
static int waits(const struct stream *stream, const char *memory, size_t bytes)
{
    for (int i = done; i < begun; ++i)
    {
        const char *target = device + (copies[i].target - shadow);
        if (copies[i].is_programs && i >= stream->copies && target < memory + bytes &&
            memory < target + copies[i].row_bytes * copies[i].rows)
            return 0;
    }
    return 1;
}

/** Whether nothing that is under way reads some memory. */
static int is_unread(const char *memory, size_t bytes)
{
    for (int i = held > done ? held : done; i < begun; ++i)
    {
        const char *source = device + (copies[i].source - shadow);
        if (copies[i].source && source < memory + bytes &&
            memory < source + copies[i].row_bytes * copies[i].rows)
            return 0;
    }
    return 1;
}

/** Whether what the program queues comes after all folds into some memory. */
static int is_folded(const char *memory, size_t bytes)
{
    const void *places[64];
    for (int i = held > done ? held : done; i < begun; ++i)
    {
        if (copies[i].folds)
            look_at_fold(copies[i].task, places);
        for (int k = 0; copies[i].folds && places[k]; ++k)
            if (memory <= (const char *)places[k] && (const char *)places[k] < memory + bytes)
                return 0;
    }
    return 1;
}

static int wait_for_event(const struct event *event)
{
    finish(event->copies);
    return failed ? illegal_address : fine;
}

static int copy_rows(void *target, const void *source, size_t pitch, size_t row_bytes, size_t rows,
                     const struct stream *stream, int is_there)
{
    if (!is_ours(source) || check("a copy in no context"))
        return invalid_value;
    if (row_bytes * rows == 8 * 13) /* another one */
        return out_of_context;
    if (is_programs(stream) && !is_there)
        return is_wrong("a copy to the host on the program's own stream");
    if (is_programs(stream)
            ? !is_unread(target, row_bytes * rows) || !is_folded(source, row_bytes * rows)
            : !waits(stream, source, row_bytes * rows))
        return is_wrong("a copy that doesn't wait for another");
    if (is_there && !is_given(target))
        return is_wrong("a copy to where the device has given nothing");
    if (!is_there && !has_registered(target, row_bytes * rows))
        ++unregistered;
    const struct copy copy = {.target = is_there ? shadow + ((char *)target - device) : target,
                              .source = shadow + ((const char *)source - device),
                              .pitch = pitch,
                              .row_bytes = row_bytes,
                              .rows = rows,
                              .after = stream ? stream->after : on_default,
                              .is_programs = is_programs(stream)};
    copies[begun++] = copy;
    held = copy.is_programs ? begun : held; /* what the program queues there comes after it */
    return fine;
}

static int load(void **module, const char *image, const char *word)
{
    if (getenv("DEVICE_LOADS_NOTHING"))
        return no_binary;
    if (check("a module of no context") || strstr(image, word) == NULL)
        return is_wrong("a module without our kernels");
    *module = malloc(1);
    ++modules;
    return fine;
}

static int unload(void *module)
{
    free(module);
    --modules;
    return check("a module of no context");
}

#define EACH_KERNEL(what)                                                                          \
    what(i1) what(i2) what(i4) what(i8) what(u1) what(u2) what(u4) what(u8) what(f4) what(f8)
#define DECLARE(type)                                                                              \
    void bbflow_range_##type(void);                                                                \
    void bbflow_fold_##type(void);
#define NAME(type)                                                                                 \
    {"bbflow_range_" #type, bbflow_range_##type}, {"bbflow_fold_" #type, bbflow_fold_##type},
EACH_KERNEL(DECLARE)
static const struct
{
    const char *name;
    void (*kernel)(void);
} kernels[] = {EACH_KERNEL(NAME)};

static int find(void **kernel, void *module, const char *name)
{
    for (size_t i = 0; module && i < sizeof(kernels) / sizeof(*kernels); ++i)
        if (strcmp(name, kernels[i].name) == 0)
        {
            *kernel = kernels[i].kernel;
            return fine;
        }
    return is_wrong("a kernel that isn't there");
}

static int is_seen(const void *memory, size_t bytes)
{
    return has_registered((const char *)memory - ((uintptr_t)1 << is_past_host), bytes);
}

static int is_fold(const void *kernel)
{
    for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); ++i)
        if (kernel == (const void *)kernels[i].kernel)
            return strstr(kernels[i].name, "_fold_") != NULL;
    return 0;
}

static int launch_fold(void *kernel, unsigned blocks, unsigned others, unsigned threads,
                       const struct stream *stream, void **arguments)
{
    const void *places[64];
    if (check("a kernel in no context"))
        return invalid_value;
    if (getenv("DEVICE_FOLDS_NOTHING"))
        return out_of_context;
    if (look_at_fold(*arguments, places) != blocks || others != 1 || threads != 128 ||
        stream == NULL || stream == &programs)
        return is_wrong("a kernel that is launched otherwise than it counts");
    for (int i = 0; places[i]; ++i)
        if (!is_given(places[i]))
            return is_wrong("a kernel folds what the device hasn't given");
    const struct copy copy = {.after = stream->after,
                              .kernel = kernel,
                              .task =
                                  memcpy(malloc(fold_task_bytes()), *arguments, fold_task_bytes()),
                              .folds = 1};
    copies[begun++] = copy;
    ++folds;
    return fine;
}

static int launch(void *kernel, unsigned blocks, unsigned others, unsigned threads,
                  const struct stream *stream, void **arguments)
{
    const char *first;
    size_t bytes;
    void *ranges;
    if (is_fold(kernel))
        return launch_fold(kernel, blocks, others, threads, stream, arguments);
    if (check("a kernel in no context"))
        return invalid_value;
    if (is_programs(stream) || others != 1 || threads != 128 ||
        look_at_range(*arguments, 0, &first, &bytes, &ranges) != blocks)
        return is_wrong("a kernel that is launched otherwise than it counts");
    for (unsigned i = 0; look_at_range(*arguments, i, &first, &bytes, &ranges); ++i)
    {
        if (!is_ours(first) || !waits(stream, first, bytes))
            return is_wrong("a kernel that doesn't wait for what it reads");
        if (ranges == NULL || !is_seen(ranges, 2 * threads))
            return is_wrong("a kernel writes what isn't registered");
    }
    const struct copy copy = {
        .after = stream->after,
        .kernel = kernel,
        .task = memcpy(malloc(range_task_bytes()), *arguments, range_task_bytes())};
    copies[begun++] = copy;
    ++launches;
    return fine;
}

static int see(void **there, char *memory, unsigned flags)
{
    if (flags || !has_registered(memory, 1))
        return is_wrong("memory is to be seen that isn't registered");
    *there = memory + ((uintptr_t)1 << is_past_host);
    return fine;
}

static int lock(char *memory, size_t bytes, unsigned flags)
{
    if (flags != 3 || bytes == 0 || (uintptr_t)memory % 16 != 0 || check("memory of no context"))
        return is_wrong("memory that is registered for one context");
    if (getenv("DEVICE_REGISTERS_NOTHING"))
        return invalid_value;
    for (int i = 0; i < locks; ++i)
        if (memory < registered[i].begin + registered[i].bytes &&
            registered[i].begin < memory + bytes)
            return is_wrong("memory is registered twice"), registered_already;
    registered[locks].begin = memory;
    registered[locks++].bytes = bytes;
    ++registrations;
    return fine;
}

static int unlock(char *memory)
{
    for (int i = 0; i < locks; ++i)
        if (registered[i].begin == memory)
        {
            const uintptr_t page = (uintptr_t)memory / 4096 * 4096;
            if (msync((void *)page, registered[i].bytes, MS_ASYNC) != 0)
                return is_wrong("memory is unregistered when it is gone");
            for (int at = done; at < begun; ++at)
                if (copies[at].target >= memory && copies[at].target < memory + registered[i].bytes)
                    return is_wrong("memory is unregistered while it is written");
            registered[i] = registered[--locks];
            return check("memory of no context");
        }
    return is_wrong("memory is unregistered that isn't registered");
}

#ifdef HIP

enum
{
    memory_is_on = 3
};
static int current, last_error = fine;

static int is_inside(void) { return current == memory_is_on; }
static int told(int status) { return status ? last_error = status : fine; }

int hipGetDevice(int *number)
{
    *number = current;
    return fine;
}

int hipSetDevice(int number)
{
    current = number;
    return fine;
}

struct attributes
{
    int type, device;
    void *device_pointer, *host_pointer;
    int is_managed;
    unsigned flags;
};

int hipPointerGetAttributes(struct attributes *found, const void *memory)
{
    if (!is_ours(memory))
        return told(invalid_value);
    memset(found, 0, sizeof(*found));
    found->type = 2;
    found->device = memory_is_on;
    found->device_pointer = (void *)memory;
    return fine;
}

int hipPeekAtLastError(void) { return last_error; }

int hipGetLastError(void)
{
    const int error = last_error;
    last_error = fine;
    return error;
}

int hipMemcpyDtoHAsync(void *target, void *source, size_t bytes, void *stream)
{
    return told(copy_rows(target, source, bytes, bytes, 1, stream, 0));
}

int hipMemcpyDtoDAsync(void *target, void *source, size_t bytes, void *stream)
{
    return told(copy_rows(target, source, bytes, bytes, 1, stream, 1));
}

int hipMalloc(void **memory, size_t bytes) { return told(allocate(memory, bytes)); }
int hipFree(void *memory) { return told(release(memory)); }

int hipMemcpy2DAsync(void *target, size_t target_pitch, const void *source, size_t pitch,
                     size_t row_bytes, size_t rows, int kind, void *stream)
{
    if (kind != (is_ours(target) ? 3 : 2) || target_pitch != row_bytes)
        return is_wrong("rows that don't come together in the host's memory");
    return told(copy_rows(target, source, pitch, row_bytes, rows, stream, kind == 3));
}

int hipStreamCreateWithFlags(void **stream, unsigned flags) { return open_stream(stream, flags); }
int hipStreamDestroy(void *stream) { return close_stream(stream); }
int hipStreamSynchronize(void *stream) { return told(wait_for_stream(stream)); }
int hipStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    return let_wait(stream, event, flags);
}
int hipEventCreateWithFlags(void **event, unsigned flags) { return open_event(event, flags); }
int hipEventDestroy(void *event) { return close_event(event); }
int hipEventRecord(void *event, void *stream) { return record(event, stream); }
int hipEventSynchronize(void *event) { return told(wait_for_event(event)); }
int hipHostRegister(void *memory, size_t bytes, unsigned flags)
{
    return told(lock(memory, bytes, flags));
}
int hipHostUnregister(void *memory) { return told(unlock(memory)); }
int hipHostGetDevicePointer(void **there, void *memory, unsigned flags)
{
    return told(see(there, memory, flags));
}
int hipModuleLoadData(void **module, const void *image)
{
    return told(load(module, image, "compiled: bbflow_range_f8"));
}
int hipModuleUnload(void *module) { return told(unload(module)); }
int hipModuleGetFunction(void **kernel, void *module, const char *name)
{
    return told(find(kernel, module, name));
}
int hipModuleLaunchKernel(void *kernel, unsigned x, unsigned y, unsigned z, unsigned threads,
                          unsigned threads_y, unsigned threads_z, unsigned shared, void *stream,
                          void **arguments, void **more)
{
    return told(shared || more
                    ? is_wrong("a kernel gets more than it takes")
                    : launch(kernel, x, y * z * threads_y * threads_z, threads, stream, arguments));
}

static const char code[] = "compiled: bbflow_range_f8";

int hiprtcCreateProgram(void **program, const char *source, const char *name, int headers,
                        const char *const *texts, const char *const *names)
{
    *program = malloc(1);
    ++modules;
    return name && headers == 3 && strstr(source, "bbflow_fold_##") &&
                   strstr(texts[0], "struct RangeTask") && strcmp(names[0], "RangeTask.h") == 0 &&
                   strcmp(names[1], "FoldTask.h") == 0 && strcmp(names[2], "Thread.h") == 0
               ? fine
               : is_wrong("a program that isn't ours");
}
int hiprtcCompileProgram(void *program, int options, const char *const *words)
{
    if (getenv("DEVICE_COMPILES_NOTHING"))
        return 6;
    return program && options == 3 && words[2] ? fine : is_wrong("words to a compiler");
}
int hiprtcGetCodeSize(void *program, size_t *bytes)
{
    *bytes = sizeof(code);
    return program ? fine : invalid_value;
}
int hiprtcGetCode(void *program, char *copy)
{
    memcpy(copy, code, sizeof(code));
    return program ? fine : invalid_value;
}
int hiprtcDestroyProgram(void **program)
{
    free(*program);
    --modules;
    return fine;
}

#else

static int in_context = 0;

static int is_inside(void) { return in_context; }

int cuPointerGetAttribute(void *value, int attribute, uintptr_t address)
{
    if (!is_ours((void *)address))
        return invalid_value;
    if (attribute == 1)
        *(void **)value = &in_context;
    else
        *(unsigned *)value = attribute == 2 ? 2 : 0;
    return fine;
}

int cuCtxGetCurrent(void **context)
{
    *context = in_context ? &in_context : NULL;
    return fine;
}

int cuCtxPushCurrent_v2(void *context)
{
    if (context != &in_context)
        return invalid_value;
    ++in_context;
    return fine;
}

int cuCtxPopCurrent_v2(void **context)
{
    *context = &in_context;
    --in_context;
    return fine;
}

struct side
{
    size_t x, y;
    int type;
    void *host;
    uintptr_t device;
    void *array;
    size_t pitch;
};
struct rows
{
    struct side source, target;
    size_t row_bytes, count;
};

int cuMemcpy2DAsync_v2(const struct rows *rows, void *stream)
{
    const int is_there = rows->target.type == 2;
    if (rows->source.type != 2 || !(is_there || rows->target.type == 1) ||
        rows->target.pitch != rows->row_bytes || rows->source.x || rows->source.y ||
        rows->target.x || rows->target.y)
        return is_wrong("rows that don't come together in the host's memory");
    return copy_rows(is_there ? (void *)rows->target.device : rows->target.host,
                     (void *)rows->source.device, rows->source.pitch, rows->row_bytes, rows->count,
                     stream, is_there);
}

int cuMemcpyDtoHAsync_v2(void *target, uintptr_t source, size_t bytes, void *stream)
{
    return copy_rows(target, (void *)source, bytes, bytes, 1, stream, 0);
}

int cuMemcpyDtoDAsync_v2(uintptr_t target, uintptr_t source, size_t bytes, void *stream)
{
    return copy_rows((void *)target, (void *)source, bytes, bytes, 1, stream, 1);
}

int cuStreamCreate(void **stream, unsigned flags) { return open_stream(stream, flags); }
int cuStreamDestroy_v2(void *stream) { return close_stream(stream); }
int cuStreamSynchronize(void *stream) { return wait_for_stream(stream); }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    return let_wait(stream, event, flags);
}
int cuEventCreate(void **event, unsigned flags) { return open_event(event, flags); }
int cuEventDestroy_v2(void *event) { return close_event(event); }
int cuEventRecord(void *event, void *stream) { return record(event, stream); }
int cuEventSynchronize(void *event) { return wait_for_event(event); }
int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
    return lock(memory, bytes, flags);
}
int cuMemHostUnregister(void *memory) { return unlock(memory); }

/* What programs call that bring no memory of their own. */
int cuInit(unsigned flags) { return flags ? invalid_value : fine; }
int cuDeviceGet(int *gpu, int number)
{
    *gpu = number;
    return number ? invalid_value : fine;
}
int cuDeviceGetCount(int *count)
{
    *count = 1;
    return fine;
}
int cuDevicePrimaryCtxRetain(void **context, int gpu)
{
    *context = &in_context;
    return gpu ? invalid_value : fine;
}
int cuMemAlloc_v2(uintptr_t *address, size_t bytes)
{
    return check("memory of no context") ? invalid_value : allocate((void **)address, bytes);
}
int cuMemFree_v2(uintptr_t address) { return release((void *)address); }
int cuMemAllocHost_v2(void **memory, size_t bytes)
{
    *memory = malloc(bytes);
    return check("memory of no context");
}
int cuMemcpyHtoD_v2(uintptr_t target, const void *source, size_t bytes)
{
    finish(begun);
    memcpy(shadow + (target - (uintptr_t)device), source, bytes);
    return check("a copy in no context");
}
int cuMemcpyDtoH_v2(void *target, uintptr_t source, size_t bytes)
{
    finish(begun);
    memcpy(target, shadow + (source - (uintptr_t)device), bytes);
    return check("a copy in no context");
}
int cuMemcpyDtoD_v2(uintptr_t target, uintptr_t source, size_t bytes)
{
    finish(begun);
    memmove(shadow + (target - (uintptr_t)device), shadow + (source - (uintptr_t)device), bytes);
    return check("a copy in no context");
}
int cuCtxSynchronize(void)
{
    finish(begun);
    return check("a wait in no context");
}
int cuMemHostGetDevicePointer_v2(void **there, void *memory, unsigned flags)
{
    return see(there, memory, flags);
}
int cuModuleLoadData(void **module, const void *image)
{
    return load(module, image, ".entry bbflow_range_f8");
}
int cuModuleUnload(void *module) { return unload(module); }
int cuModuleGetFunction(void **kernel, void *module, const char *name)
{
    return find(kernel, module, name);
}
int cuLaunchKernel(void *kernel, unsigned x, unsigned y, unsigned z, unsigned threads,
                   unsigned threads_y, unsigned threads_z, unsigned shared, void *stream,
                   void **arguments, void **more)
{
    return shared || more
               ? is_wrong("a kernel gets more than it takes")
               : launch(kernel, x, y * z * threads_y * threads_z, threads, stream, arguments);
}

#endif
