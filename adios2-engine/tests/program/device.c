/* A stand-in for a GPU and its runtime: memory that crashes whoever reads it without the runtime.
 * With -DHIP it is called as AMD's library is, else as CUDA's driver. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum
{
    fine = 0,
    invalid_value = 1,
    most = 1 << 20
};

static char shadow[most]; /* what the device has */
static char *device;      /* where the program sees it */

static int is_ours(const void *memory)
{
    return device != NULL && (const char *)memory >= device && (const char *)memory < device + most;
}

/** Memory on the device, with a copy of the host's in it. */
void *device_copy_of(const void *host, size_t bytes)
{
    if (device == NULL)
        device = mmap(NULL, most, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(shadow, host, bytes);
    return device;
}

static void *locked; /* the host's memory that the device writes itself */

/** How much of the host's memory is locked. */
int device_locks(void) { return locked != NULL; }

static int lock(void *memory)
{
    if (locked != NULL)
        return invalid_value;
    locked = memory;
    return fine;
}

static int unlock(void *memory)
{
    if (locked != memory)
        return invalid_value;
    locked = NULL;
    return fine;
}

#ifdef HIP

struct attributes
{
    int type, device;
    void *device_pointer, *host_pointer;
    int is_managed;
    unsigned flags;
};

static int last_error = fine;

int hipPointerGetAttributes(struct attributes *found, const void *memory)
{
    if (!is_ours(memory))
        return last_error = invalid_value;
    memset(found, 0, sizeof(*found));
    found->type = 2;
    found->device_pointer = (void *)memory;
    return fine;
}

int hipMemcpy(void *target, const void *source, size_t bytes, int kind)
{
    if (!is_ours(source) || kind != 2)
        return last_error = invalid_value;
    memcpy(target, shadow + ((const char *)source - device), bytes);
    return fine;
}

int hipHostRegister(void *memory, size_t bytes, unsigned flags)
{
    return bytes > 0 && flags == 1 ? lock(memory) : invalid_value;
}

int hipHostUnregister(void *memory) { return unlock(memory); }

int hipPeekAtLastError(void) { return last_error; }

int hipGetLastError(void)
{
    const int error = last_error;
    last_error = fine;
    return error;
}

#else

static int in_context = 0;

int cuPointerGetAttribute(void *value, int attribute, uintptr_t address)
{
    if (!is_ours((void *)address) && (void *)address != locked)
        return invalid_value;
    if (attribute == 1)
        *(void **)value = &in_context;
    else
        *(unsigned *)value = attribute == 2 ? (is_ours((void *)address) ? 2 : 1) : 0;
    return fine;
}

int cuCtxPushCurrent_v2(void *context)
{
    in_context = context == &in_context;
    return in_context ? fine : invalid_value;
}

int cuCtxPopCurrent_v2(void **context)
{
    *context = &in_context;
    in_context = 0;
    return fine;
}

int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
    return in_context && bytes > 0 && flags == 1 ? lock(memory) : invalid_value;
}

int cuMemHostUnregister(void *memory) { return in_context ? unlock(memory) : invalid_value; }

int cuMemcpyDtoH_v2(void *target, uintptr_t source, size_t bytes)
{
    if (!in_context || bytes == 8 * 13) /* a size at which it fails */
        return 201;
    memcpy(target, shadow + ((char *)source - device), bytes);
    return fine;
}

#endif
