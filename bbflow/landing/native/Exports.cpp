/** What Python calls (bbflow/landing/fabric.py). */

#include "Gates.h"

#include <cstring>
#include <exception>
#include <memory>

using bbflow::Fabric;
using bbflow::Gate;
using bbflow::Gates;

namespace
{

constexpr size_t TextBytes = 512;

/** Where the other side may write or read, as it must call it. */
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

    /** Like bbflow_gates_grant, for reading alone. */
    bool bbflow_gates_show(Gate *gate, void *memory, size_t bytes, Opened *opened, char *why)
    {
        return Try(why, [&] { *opened = Told(gate->Show(memory, bytes)); });
    }

    void bbflow_gates_revoke(Gate *gate) { gate->Revoke(); }

    /** Opens the way to a gate, and tries it.
     *  @param source own address on the network on which the node is
     *  @param alive descriptor of the connection to the node
     *  @return nullptr if it doesn't lead there; `why` says why */
    Fabric *bbflow_gates_reach(const char *provider, const char *source, const char *address,
                               size_t bytes, const Opened *scratch, int alive, char *why)
    {
        std::unique_ptr<Fabric> fabric;
        Try(why,
            [&]
            {
                auto opened =
                    std::make_unique<Fabric>(provider, source, std::string(address, bytes));
                char word[8];
                opened->Read(word, sizeof(word), scratch->Base, scratch->Key, alive);
                fabric = std::move(opened);
            });
        return fabric.release();
    }

    /** Reads what a gate shows. After an error nothing but leaving is allowed, and the memory must
     * stay until then.
     *  @return whether it is there; `isGone` says whether it isn't since the node is gone */
    bool bbflow_gates_read(Fabric *fabric, char *own, size_t bytes, const Opened *shown, int alive,
                           bool *isGone, char *why)
    {
        *isGone = false;
        return Try(why,
                   [&]
                   {
                       try
                       {
                           fabric->Read(own, bytes, shown->Base, shown->Key, alive);
                       }
                       catch (const bbflow::FabricError &)
                       {
                           throw;
                       }
                       catch (const bbflow::ConnectionLost &)
                       {
                           *isGone = true;
                           throw;
                       }
                   });
    }

    void bbflow_gates_leave(Fabric *fabric) { delete fabric; }
}
