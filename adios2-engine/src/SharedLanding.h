#pragma once

#include "Landing.h"
#include "Pool.h"

#include <memory>

namespace bbflow
{

/** Lands blocks in the pool of a node on this host, through shared memory. */
class SharedLanding final : public Landing
{
public:
    explicit SharedLanding(std::shared_ptr<Pool> pool) : m_Pool(std::move(pool)) {}

    void Land(const char *source, size_t bytes, size_t offset, Scan &scan) override;
    void Sync() override {}
    void GoOn(Channel &, FabricRoute *) override {}
    bool NeedsMemory() const override { return false; }

private:
    std::shared_ptr<Pool> m_Pool;
};

} // end namespace bbflow
