/** What Python calls (bbflow/landing/fabric.py). */

#include "Gates.h"

#include <cstring>
#include <exception>

using bbflow::Fabric;
using bbflow::Gate;
using bbflow::Gates;

namespace
{

constexpr size_t TextBytes = 512;

/** Where a rank may write, as it must call it. */
struct Opened
{
    uint64_t Base, Key;
};

Opened Told(const Fabric::Region &region) { return {region.Base(), region.Key()}; }

/** Does something; gives false, and why, if it fails. */
template <class Action>
bool Try(char *why, Action action) noexcept
{
    try
    {
        action();
        return true;
    }
    catch (const std::exception &error)
    {
        std::strncpy(why, error.what(), TextBytes - 1);
        why[TextBytes - 1] = '\0';
        return false;
    }
}

} // end empty namespace

#pragma GCC visibility push(default)
extern "C"
{
    Gates *bbflow_gates_new(char *why)
    {
        Gates *gates = nullptr;
        Try(why, [&] { gates = new Gates; });
        return gates;
    }

    void bbflow_gates_delete(Gates *gates) { delete gates; }

    /** @param address has room for `bytes`, which becomes how many it has
     *  @return nullptr if it can't be opened; `why` says why (512 bytes) */
    Gate *bbflow_gates_open(Gates *gates, const char *provider, const char *host, char *address,
                            size_t *bytes, Opened *scratch, char *why)
    {
        Gate *gate = nullptr;
        Try(why,
            [&]
            {
                Gate &opened = gates->Open(provider, host);
                const std::string own = opened.Address();
                *bytes = own.copy(address, *bytes);
                *scratch = Told(opened.Scratch());
                gate = &opened;
            });
        return gate;
    }

    void bbflow_gates_close(Gates *gates, Gate *gate) { gates->Close(*gate); }

    /** @return false if the memory can't be registered */
    bool bbflow_gates_grant(Gate *gate, void *memory, size_t bytes, Opened *opened, char *why)
    {
        return Try(why, [&] { *opened = Told(gate->Grant(memory, bytes)); });
    }

    /** @param areAll whether slow ones count too
     *  @param names gets them, one a line (512 bytes)
     *  @return false if there can be none; `why` says why */
    bool bbflow_gates_providers(bool areAll, char *names, char *why)
    {
        return Try(why,
                   [&]
                   {
                       std::string lines;
                       for (const auto &name :
                            areAll ? bbflow::AllProviders() : bbflow::ProvidersHere(""))
                       {
                           lines += name + "\n";
                       }
                       names[lines.copy(names, TextBytes - 1)] = '\0';
                   });
    }

    void bbflow_gates_revoke(Gate *gate) { gate->Revoke(); }
}
