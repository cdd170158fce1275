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

#if FUSE_KERNEL_MINOR_VERSION < 44
/** Makes the kernel ask for all names again. */
#define FUSE_NOTIFY_INC_EPOCH 8
#endif

#if FUSE_KERNEL_MINOR_VERSION < 39
#define FUSE_DIRECT_IO_ALLOW_MMAP (1ULL << 36)
#endif

#if FUSE_KERNEL_MINOR_VERSION < 42
#define FUSE_OVER_IO_URING (1ULL << 41)
#define FUSE_URING_IN_OUT_HEADER_SZ 128
#define FUSE_URING_OP_IN_OUT_SZ 128
#define FUSE_IO_URING_CMD_REGISTER 1
#define FUSE_IO_URING_CMD_COMMIT_AND_FETCH 2

struct fuse_uring_ent_in_out
{
    uint64_t flags;
    uint64_t commit_id;
    /** Bytes of the payload, in either direction. */
    uint32_t payload_sz;
    uint32_t padding;
    uint64_t reserved;
};

/** What comes and goes beside the payload. */
struct fuse_uring_req_header
{
    char in_out[FUSE_URING_IN_OUT_HEADER_SZ];
    char op_in[FUSE_URING_OP_IN_OUT_SZ];
    struct fuse_uring_ent_in_out ring_ent_in_out;
};

/** An io_uring command's own part. */
struct fuse_uring_cmd_req
{
    uint64_t flags;
    uint64_t commit_id;
    uint16_t qid;
    uint8_t padding[6];
};
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
