#include "Libfabric.h"
#include "KeptSignals.h"

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <stdexcept>

namespace bbflow
{

namespace
{

/** Those that write memory of another host without its CPU, in the order in which they are tried.
 */
constexpr const char *BetterThanTcp[] = {"cxi", "verbs;ofi_rxm", "efa"};

/** Where such a network shows; libfabric isn't loaded for nothing. */
constexpr const char *Devices[] = {"/sys/class/infiniband", "/sys/class/cxi"};

template <class Function>
void Find(void *library, const char *name, const char *version, Function &function)
{
    // By its version: later ones have other structures under the same name.
    function = reinterpret_cast<Function>(dlvsym(library, name, version));
    if (function == nullptr)
    {
        throw std::invalid_argument(std::string("bbflow: libfabric of this host lacks ") + name +
                                    " of " + version);
    }
}

} // end empty namespace

const Libfabric &Libfabric::Load()
{
    static const Libfabric functions;
    return functions;
}

Libfabric::Libfabric()
{
    const KeptSignals kept;
    void *library = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
    {
        throw std::invalid_argument(std::string("bbflow: libfabric can't be loaded: ") + dlerror());
    }
    bbflow::Find(library, "fi_getinfo", "FABRIC_1.3", m_GetInfo);
    bbflow::Find(library, "fi_freeinfo", "FABRIC_1.3", m_FreeInfo);
    bbflow::Find(library, "fi_dupinfo", "FABRIC_1.3", m_Duplicate);
    bbflow::Find(library, "fi_fabric", "FABRIC_1.1", m_OpenFabric);
    bbflow::Find(library, "fi_strerror", "FABRIC_1.0", m_ErrorText);
}

Libfabric::Infos Libfabric::Find(const std::string &provider, const std::string &source,
                                 const bool fromGpus) const
{
    const Infos hints(m_Duplicate(nullptr), m_FreeInfo);
    hints->Caps = ofi::Rma | ofi::Read | ofi::Write | ofi::RemoteRead | ofi::RemoteWrite;
    hints->Caps |= fromGpus ? ofi::OfGpus : 0;
    hints->Mode = ofi::AnyContext;
    hints->Endpoint->Type = ofi::ReliableDatagram;
    hints->Domain->MemoryMode = ofi::LocalMemory | ofi::VirtualAddress | ofi::Allocated |
                                ofi::ProviderKey | ofi::OfEndpoint |
                                (fromGpus ? ofi::GpuMemory : 0);
    hints->Fabric->Provider = // which goes with the hints
        provider.empty() ? nullptr : strdup(provider.c_str());
    // A write counts as done when the other host's memory has it. Where a provider can't tell, a
    // read behind it does, if it comes after it.
    hints->Transmit->OpFlags = ofi::DeliveryComplete;
    Infos found = Ask(*hints, source);
    if (!found)
    {
        hints->Transmit->OpFlags = 0;
        hints->Transmit->MessageOrder = hints->Receive->MessageOrder = ofi::ReadAfterWrite;
        found = Ask(*hints, source);
    }
    return found;
}

Libfabric::Infos Libfabric::Ask(const ofi::Info &hints, const std::string &source) const
{
    const char *host = source.empty() ? nullptr : source.c_str();
    ofi::Info *found = nullptr;
    const KeptSignals kept;
    if (m_GetInfo(ofi::Version, host, nullptr, host ? ofi::Source : 0, &hints, &found) != 0)
    {
        found = nullptr;
    }
    return Infos(found, m_FreeInfo);
}

bool MayHaveFabric(const std::string &only)
{
    const auto hasEntries = [](const char *path)
    {
        std::error_code isMissing;
        return std::filesystem::directory_iterator(path, isMissing) !=
               std::filesystem::directory_iterator();
    };
    return !only.empty() || std::any_of(std::begin(Devices), std::end(Devices), hasEntries);
}

std::vector<std::string> ProvidersHere(const std::string &only)
{
    if (!MayHaveFabric(only))
    {
        return {};
    }
    std::vector<std::string> here(std::begin(BetterThanTcp), std::end(BetterThanTcp));
    if (!only.empty())
    {
        here = {only};
    }
    const auto isMissing = [](const std::string &provider)
    { return !Libfabric::Load().Find(provider, ""); };
    here.erase(std::remove_if(here.begin(), here.end(), isMissing), here.end());
    return here;
}

std::vector<std::string> AllProviders()
{
    std::vector<std::string> all;
    const Libfabric::Infos found = Libfabric::Load().Find("", "");
    for (const ofi::Info *info = found.get(); info != nullptr; info = info->Next)
    {
        if (std::find(all.begin(), all.end(), info->Fabric->Provider) == all.end())
        {
            all.emplace_back(info->Fabric->Provider);
        }
    }
    return all;
}

} // end namespace bbflow
