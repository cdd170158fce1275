#pragma once

#include "Ofi.h"

#include <memory>
#include <string>
#include <vector>

namespace bbflow
{

/** The functions of this host's libfabric; it is loaded when they are first asked for. */
class Libfabric
{
public:
    using Infos = std::unique_ptr<ofi::Info, void (*)(ofi::Info *)>;

    /** @throws std::invalid_argument if the host has none */
    static const Libfabric &Load();

    /** What a provider has for one-sided writes between hosts; nothing if it can't.
     *  @param provider empty: each of them
     *  @param source host or address that the endpoint is to have; empty: as it chooses
     *  @param fromGpus whether it must read a GPU's memory, too */
    Infos Find(const std::string &provider, const std::string &source, bool fromGpus = false) const;

    std::string ErrorText(int error) const { return m_ErrorText(error); }

    int OpenFabric(ofi::FabricAttributes *attributes, ofi::Fabric **fabric) const
    {
        return m_OpenFabric(attributes, fabric, nullptr);
    }

private:
    int (*m_GetInfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
                     const ofi::Info *hints, ofi::Info **found);
    void (*m_FreeInfo)(ofi::Info *info);
    ofi::Info *(*m_Duplicate)(const ofi::Info *info);
    int (*m_OpenFabric)(ofi::FabricAttributes *attributes, ofi::Fabric **fabric, void *context);
    const char *(*m_ErrorText)(int error);

    Libfabric();
    Infos Ask(const ofi::Info &hints, const std::string &source) const;
};

/** Whether it is worth a look which providers there are: this host has a network that is better
 * than TCP, or one is named. Without, libfabric isn't loaded. */
bool MayHaveFabric(const std::string &only);

/** The providers of libfabric that this host has, the fastest first.
 *  @param only the one that counts; empty: those that are better than TCP
 *  @throws std::invalid_argument if the host has no libfabric, and may need it */
std::vector<std::string> ProvidersHere(const std::string &only);

/** All that can write another's memory, in libfabric's own order.
 *  @throws std::invalid_argument if the host has no libfabric */
std::vector<std::string> AllProviders();

} // end namespace bbflow
