/* A stand-in for a libfabric whose provider reads the memory of a stand-in's GPU (device.c): all
 * else is the host's own libfabric. Its path is in FABRIC, that of the GPU's runtime in RUNTIME. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *real(const char *name)
{
    static void *library;
    if (library == NULL)
        library = dlopen(getenv("FABRIC"), RTLD_NOW | RTLD_LOCAL);
    return dlsym(library, name);
}

static char *shadow_of(const void *memory)
{
    char *(*shadow)(const void *) =
        dlsym(dlopen(getenv("RUNTIME"), RTLD_NOW | RTLD_NOLOAD), "device_shadow");
    return shadow ? shadow(memory) : NULL;
}

static struct fi_ops_fabric fabric_ops, *real_fabric;
static struct fi_ops_domain domain_ops, *real_domain;
static struct fi_ops_mr region_ops, *real_region;
static struct fi_ops_rma write_ops, *real_write;
static struct
{
    const char *begin;
    size_t bytes;
    void *description;
} lent;
static int written; /* out of a GPU */

static int register_by(struct fid *domain, const struct fi_mr_attr *attr, uint64_t flags,
                       struct fid_mr **region)
{
    char *memory = shadow_of(attr->mr_iov->iov_base);
    const int kind = strstr(getenv("RUNTIME"), "libcuda") ? FI_HMEM_CUDA : FI_HMEM_ROCR;
    if (getenv("FABRIC_TAKES_NONE") || memory == NULL || attr->iface != kind ||
        attr->device.reserved != 0 || attr->iov_count != 1 ||
        attr->access != (FI_READ | FI_WRITE) || attr->offset || attr->auth_key_size || flags)
        return -FI_ENOSYS;
    const int status = real_region->reg(domain, memory, attr->mr_iov->iov_len, attr->access, 0,
                                        attr->requested_key, 0, region, NULL);
    lent.begin = attr->mr_iov->iov_base;
    lent.bytes = attr->mr_iov->iov_len;
    lent.description = status == 0 ? (*region)->mem_desc : NULL;
    return status;
}

static ssize_t write_out(struct fid_ep *end, const void *memory, size_t bytes, void *description,
                         fi_addr_t peer, uint64_t place, uint64_t key, void *context)
{
    const char *first = memory, *shadow = shadow_of(memory);
    if (shadow != NULL && (first < lent.begin || first + bytes > lent.begin + lent.bytes ||
                           description != lent.description))
        return -FI_EACCES;
    written += shadow != NULL;
    return real_write->write(end, shadow ? shadow : memory, bytes, description, peer, place, key,
                             context);
}

/** How many pieces were written out of a GPU. */
int fabric_written(void) { return written; }

static int open_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **end,
                         void *context)
{
    info->caps &= ~FI_HMEM; /* of which the provider knows nothing */
    const int status = real_domain->endpoint(domain, info, end, context);
    info->caps |= FI_HMEM;
    if (status == 0)
    {
        real_write = (*end)->rma;
        write_ops = *real_write;
        write_ops.write = write_out;
        (*end)->rma = &write_ops;
    }
    return status;
}

static int open_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                       void *context)
{
    info->caps &= ~FI_HMEM;
    const int status = real_fabric->domain(fabric, info, domain, context);
    info->caps |= FI_HMEM;
    if (status == 0)
    {
        real_domain = (*domain)->ops;
        domain_ops = *real_domain;
        domain_ops.endpoint = open_endpoint;
        (*domain)->ops = &domain_ops;
        real_region = (*domain)->mr;
        region_ops = *real_region;
        region_ops.regattr = register_by;
        (*domain)->mr = &region_ops;
    }
    return status;
}

int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    int (*open)(struct fi_fabric_attr *, struct fid_fabric **, void *) = real("fi_fabric");
    const int status = open(attr, fabric, context);
    if (status == 0)
    {
        real_fabric = (*fabric)->ops;
        fabric_ops = *real_fabric;
        fabric_ops.domain = open_domain;
        (*fabric)->ops = &fabric_ops;
    }
    return status;
}

int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
               const struct fi_info *hints, struct fi_info **info)
{
    int (*get)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *,
               struct fi_info **) = real("fi_getinfo");
    struct fi_info asked = *hints;
    struct fi_domain_attr domain = *hints->domain_attr;
    const int is_of_gpus = hints->caps & FI_HMEM && domain.mr_mode & FI_MR_HMEM;
    asked.caps &= ~FI_HMEM;
    asked.domain_attr = &domain;
    domain.mr_mode &= ~FI_MR_HMEM;
    const int status = get(version, node, service, flags, &asked, info);
    if (status == 0 && is_of_gpus)
        (*info)->caps |= FI_HMEM;
    return status;
}

void fi_freeinfo(struct fi_info *info) { ((void (*)(struct fi_info *))real("fi_freeinfo"))(info); }

struct fi_info *fi_dupinfo(const struct fi_info *info)
{
    return ((struct fi_info * (*)(const struct fi_info *)) real("fi_dupinfo"))(info);
}

const char *fi_strerror(int error) { return ((const char *(*)(int))real("fi_strerror"))(error); }
