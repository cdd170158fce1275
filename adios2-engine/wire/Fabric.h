#pragma once

#include "Libfabric.h"
#include "Wire.h"

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace bbflow
{

/** The network that libfabric uses has failed: another way may help. */
class FabricError : public ConnectionLost
{
public:
    using ConnectionLost::ConnectionLost;
};

/** An endpoint of libfabric's in a domain of its own, so that no other connection's keys count in
 * it. One thread at a time may use it. */
class Fabric
{
public:
    /** Memory that the other side may write, or that is written from. */
    class Region
    {
    public:
        Region() = default;
        Region(ofi::Region *region, uint64_t base) : m_Region(region), m_Base(base) {}
        ~Region();
        Region(Region &&other) noexcept;
        Region &operator=(Region &&other) noexcept;

        /** What the other side must name. */
        uint64_t Key() const { return m_Region->Key; }
        /** What it must call the first byte. */
        uint64_t Base() const { return m_Base; }
        void *Description() const { return m_Region ? m_Region->Description : nullptr; }

    private:
        ofi::Region *m_Region = nullptr;
        uint64_t m_Base = 0;
    };

    /** @param source host or address of its own, which counts if it is of the provider's network
     *  @param target address of the endpoint that it writes to or reads from; empty for one that
     *    waits for that
     *  @param fromGpus whether it is to read a GPU's memory, where the provider can
     *  @throws FabricError if the provider can't */
    Fabric(const std::string &provider, const std::string &source, const std::string &target,
           bool fromGpus = false);
    ~Fabric();
    Fabric(const Fabric &) = delete;
    Fabric &operator=(const Fabric &) = delete;

    /** What the other side calls it. */
    std::string Address() const;

    /** Makes memory writable for the other side, until the region ends.
     *  @throws FabricError if it can't be registered */
    Region Open(void *memory, size_t bytes) const;

    /** Makes memory readable for the other side, until the region ends.
     *  @throws FabricError if it can't be registered */
    Region Show(void *memory, size_t bytes) const;

    /** Own memory that is written from or read into; an empty region where the provider needs none.
     */
    Region Lend(const char *memory, size_t bytes) const;

    /** The same of a GPU's memory.
     *  @throws FabricError if it can't be registered */
    Region Lend(const char *memory, size_t bytes, const ofi::Owner &gpu) const;

    /** Whether the provider says that it reads a GPU's memory. */
    bool TakesGpus() const { return (m_Info->Caps & ofi::OfGpus) != 0; }

    /** Begins a write to the target. Its memory stays as it is until Finish.
     *  @param alive a connection to the same host: when that ends, so does the waiting
     *  @throws FabricError if it fails */
    void Write(const Region &lent, std::string_view source, uint64_t place, uint64_t key,
               int alive);

    /** Reads the target's memory into own memory; returns when it is there.
     *  @param alive as for Write
     *  @throws FabricError if it fails */
    void Read(char *own, size_t bytes, uint64_t place, uint64_t key, int alive);

    /** Returns when what was written lies in the target's memory.
     *  @throws FabricError if something of it failed */
    void Finish(int alive);

    /** Largest piece that one write takes. */
    size_t MostBytes() const;

    /** What a thread waits for before it calls Progress; -1 if it must call it again and again. */
    int Descriptor() const { return m_Descriptor; }

    /** Whether it may wait for the descriptor now. */
    bool MayWait() const;

    /** Drives the provider's progress, which what the other side does may need. */
    void Progress();

private:
    struct Close
    {
        template <class T>
        void operator()(T *object) const
        {
            object->Fid.Ops->Close(&object->Fid);
        }
    };
    template <class T>
    using Owned = std::unique_ptr<T, Close>;

    /** Some providers want memory of their own for each operation. */
    struct Operation
    {
        void *Context[8];
        bool IsFree = true;
    };

    Libfabric::Infos m_Info;
    Owned<ofi::Fabric> m_Fabric;
    Owned<ofi::Domain> m_Domain;
    Owned<ofi::Queue> m_Queue;
    Owned<ofi::Vector> m_Vector;
    Owned<ofi::Endpoint> m_Endpoint;
    ofi::PeerAddress m_Peer = 0;
    int m_Descriptor = -1;
    std::array<Operation, 64> m_Operations;
    size_t m_Running = 0;
    /** Of the last write: what a read must ask for to come after all. */
    uint64_t m_LastPlace = 0;
    uint64_t m_LastKey = 0;
    std::array<char, 8> m_ReadBack{};
    Region m_ReadBackLent;

    bool Needs(ofi::MemoryMode mode) const { return (m_Info->Domain->MemoryMode & mode) != 0; }
    static Libfabric::Infos Find(const std::string &provider, const std::string &source,
                                 bool fromGpus);
    Region Register(const void *memory, size_t bytes, uint64_t access,
                    const ofi::Owner &owner = {}) const;
    void OpenQueue();
    void Check(int status, const std::string &what) const;
    Operation &FreeOperation(int alive);
    template <class Begin>
    void Start(int alive, Begin begin);
    size_t Reap();
    void AwaitAll(int alive);
    void Wait(int alive, double &idleSecs) const;
};

} // end namespace bbflow
