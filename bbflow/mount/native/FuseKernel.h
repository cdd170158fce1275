#pragma once

// The kernel's FUSE protocol. Headers of older distributions lack what newer kernels know; those
// numbers and structs are the kernel's binary interface and stand below.

#include <cstdint>
#include <linux/fuse.h>
#include <sys/ioctl.h>

#ifndef FUSE_DEV_IOC_MAGIC
#define FUSE_DEV_IOC_MAGIC 229
#endif

#if FUSE_KERNEL_MINOR_VERSION < 40
#define FUSE_PASSTHROUGH (1ULL << 37)
#define FOPEN_PASSTHROUGH (1 << 7)

/** Asks the kernel to read and write a file by itself. */
struct fuse_backing_map
{
    int32_t fd;
    uint32_t flags;
    uint64_t padding;
};

#define FUSE_DEV_IOC_BACKING_OPEN _IOW(FUSE_DEV_IOC_MAGIC, 1, struct fuse_backing_map)
#define FUSE_DEV_IOC_BACKING_CLOSE _IOW(FUSE_DEV_IOC_MAGIC, 2, uint32_t)
#endif

#if FUSE_KERNEL_MINOR_VERSION < 36
#error "linux/fuse.h is older than Linux 5.17: install the kernel headers of Debian 12 or newer"
#endif

namespace bbflow
{

/** Puts the number of stacked file systems below a passthrough file where kernels from 6.9 on
 *  look for it: `max_stack_depth`, the first word that was unused before. */
inline void SetStackDepth(fuse_init_out &reply, const uint32_t depth)
{
#if FUSE_KERNEL_MINOR_VERSION < 40
    reply.unused[0] = depth;
#else
    reply.max_stack_depth = depth;
#endif
}

/** Names the backing file of an open file: `backing_id`, padding in older headers. */
inline void SetBackingId(fuse_open_out &reply, const int32_t id)
{
#if FUSE_KERNEL_MINOR_VERSION < 40
    reply.padding = static_cast<uint32_t>(id);
#else
    reply.backing_id = id;
#endif
}

} // end namespace bbflow
