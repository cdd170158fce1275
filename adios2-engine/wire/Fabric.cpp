#include "Fabric.h"
#include "KeptSignals.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <poll.h>
#include <sys/random.h>
#include <thread>
#include <utility>

namespace bbflow
{

namespace
{

/** How long nothing may move while the other side lives. */
constexpr double MostIdleSecs = 60.0;

/** A descriptor is looked at again after this time at the latest: some providers have more to do
 * than it tells. */
constexpr int WaitMilliseconds = 5;
constexpr auto PollInterval = std::chrono::microseconds(50);

/** What is read at once: several such are on their way. */
constexpr size_t MostReadBytes = size_t{1} << 20;

/** A key that can't be guessed, as long as the provider takes them. */
uint64_t DrawKey(const size_t bytes)
{
    uint64_t key = 0;
    if (getrandom(&key, std::min(bytes, sizeof(key)), 0) < 0)
    {
        throw FabricError("bbflow: this host gives no random numbers");
    }
    return key;
}

} // end empty namespace

Fabric::Region::~Region()
{
    if (m_Region != nullptr)
    {
        m_Region->Fid.Ops->Close(&m_Region->Fid);
    }
}

Fabric::Region::Region(Region &&other) noexcept
: m_Region(std::exchange(other.m_Region, nullptr)), m_Base(other.m_Base)
{
}

Fabric::Region &Fabric::Region::operator=(Region &&other) noexcept
{
    std::swap(m_Region, other.m_Region);
    std::swap(m_Base, other.m_Base);
    return *this;
}

Libfabric::Infos Fabric::Find(const std::string &provider, const std::string &source,
                              const bool fromGpus)
{
    Libfabric::Infos found = Libfabric::Load().Find(provider, source, fromGpus);
    // Some networks know no names and addresses of hosts: their providers choose by themselves.
    if (!found || found->AddressFormat > ofi::LastSocketAddress)
    {
        found = Libfabric::Load().Find(provider, "", fromGpus);
    }
    return !found && fromGpus ? Find(provider, source, false) : std::move(found);
}

Fabric::Fabric(const std::string &provider, const std::string &source, const std::string &target,
               const bool fromGpus)
: m_Info(Find(provider, source, fromGpus))
{
    if (!m_Info)
    {
        throw FabricError("bbflow: libfabric's provider " + provider +
                          " has nothing for one-sided writes here");
    }
    const KeptSignals kept;
    const auto open = [&](auto &owned, const std::string &what, auto function)
    {
        typename std::remove_reference_t<decltype(owned)>::pointer object = nullptr;
        Check(function(&object), what);
        owned.reset(object);
    };
    open(m_Fabric, "fabric", [&](ofi::Fabric **fabric)
         { return Libfabric::Load().OpenFabric(m_Info->Fabric, fabric); });
    open(m_Domain, "domain", [&](ofi::Domain **domain)
         { return m_Fabric->Ops->OpenDomain(m_Fabric.get(), m_Info.get(), domain, nullptr); });
    OpenQueue();
    open(m_Vector, "addresses",
         [&](ofi::Vector **vector)
         {
             ofi::VectorAttributes attributes{};
             attributes.Type = m_Info->Domain->VectorType;
             return m_Domain->Ops->OpenVector(m_Domain.get(), &attributes, vector, nullptr);
         });
    open(m_Endpoint, "endpoint", [&](ofi::Endpoint **endpoint)
         { return m_Domain->Ops->OpenEndpoint(m_Domain.get(), m_Info.get(), endpoint, nullptr); });
    ofi::Fid *own = &m_Endpoint->Fid;
    Check(own->Ops->Bind(own, &m_Vector->Fid, 0), "addresses");
    Check(own->Ops->Bind(own, &m_Queue->Fid, ofi::Transmit | ofi::Recv), "queue");
    Check(own->Ops->Control(own, ofi::Enable, nullptr), "endpoint");
    if (!target.empty())
    {
        if (m_Vector->Ops->Insert(m_Vector.get(), target.data(), 1, &m_Peer, 0, nullptr) != 1)
        {
            throw FabricError("bbflow: libfabric doesn't take the node's address");
        }
        m_ReadBackLent = Lend(m_ReadBack.data(), m_ReadBack.size());
    }
}

Fabric::~Fabric() = default;

void Fabric::OpenQueue()
{
    ofi::QueueAttributes attributes{};
    attributes.Size = 2 * m_Operations.size();
    attributes.Format = ofi::ByContext;
    attributes.Wait = ofi::WaitDescriptor;
    ofi::Queue *queue = nullptr;
    if (m_Domain->Ops->OpenQueue(m_Domain.get(), &attributes, &queue, nullptr) == 0)
    {
        m_Queue.reset(queue);
        Check(queue->Fid.Ops->Control(&queue->Fid, ofi::GetWait, &m_Descriptor), "queue");
        return;
    }
    attributes.Wait = ofi::NoWait;
    Check(m_Domain->Ops->OpenQueue(m_Domain.get(), &attributes, &queue, nullptr), "queue");
    m_Queue.reset(queue);
}

void Fabric::Check(const int status, const std::string &what) const
{
    if (status != 0)
    {
        throw FabricError("bbflow: libfabric's provider " + std::string(m_Info->Fabric->Provider) +
                          " fails (" + what + ": " + Libfabric::Load().ErrorText(-status) + ")");
    }
}

std::string Fabric::Address() const
{
    std::string address(256, '\0');
    size_t bytes = address.size();
    Check(m_Endpoint->Names->GetName(&m_Endpoint->Fid, address.data(), &bytes), "address");
    address.resize(bytes);
    return address;
}

Fabric::Region Fabric::Open(void *memory, const size_t bytes) const
{
    return Register(memory, bytes, ofi::RemoteWrite | ofi::RemoteRead);
}

Fabric::Region Fabric::Show(void *memory, const size_t bytes) const
{
    return Register(memory, bytes, ofi::RemoteRead);
}

Fabric::Region Fabric::Lend(const char *memory, const size_t bytes) const
{
    // Of a block for as long as its writes run, and no longer: the program may give the memory
    // back.
    return Needs(ofi::LocalMemory) ? Register(memory, bytes, ofi::Write | ofi::Read) : Region();
}

Fabric::Region Fabric::Lend(const char *memory, const size_t bytes, const ofi::Owner &gpu) const
{
    return Register(memory, bytes, ofi::Write | ofi::Read, gpu);
}

Fabric::Region Fabric::Register(const void *memory, const size_t bytes, const uint64_t access,
                                const ofi::Owner &owner) const
{
    const uint64_t key = Needs(ofi::ProviderKey) ? 0 : DrawKey(m_Info->Domain->KeyBytes);
    ofi::Region *region = nullptr;
    if (owner.Kind == ofi::Owner::Host)
    {
        Check(m_Domain->Regions->Register(&m_Domain->Fid, memory, bytes, access, 0, key, 0, &region,
                                          nullptr),
              "memory");
    }
    else
    {
        const iovec piece{const_cast<void *>(memory), bytes};
        const ofi::RegionAttributes attributes{
            &piece,  1, access,  0,          key,
            nullptr, 0, nullptr, owner.Kind, static_cast<uint64_t>(owner.Number),
            {}};
        Check(m_Domain->Regions->RegisterBy(&m_Domain->Fid, &attributes, 0, &region),
              "a GPU's memory");
    }
    Region owned(region, Needs(ofi::VirtualAddress) ? reinterpret_cast<uint64_t>(memory) : 0);
    if (Needs(ofi::OfEndpoint))
    {
        Check(region->Fid.Ops->Bind(&region->Fid, &m_Endpoint->Fid, 0), "memory");
        Check(region->Fid.Ops->Control(&region->Fid, ofi::Enable, nullptr), "memory");
    }
    return owned;
}

size_t Fabric::MostBytes() const { return m_Info->Endpoint->MaxMessageBytes; }

bool Fabric::MayWait() const
{
    // fi_poll(3): only fi_trywait tells whether it is safe to block on the descriptor.
    ofi::Fid *queue = &m_Queue->Fid;
    return m_Fabric->Ops->TryWait(m_Fabric.get(), &queue, 1) == 0;
}

void Fabric::Progress()
{
    void *entries[16];
    m_Queue->Ops->Read(m_Queue.get(), entries, 16);
}

/** Takes in what is done; gives how much. */
size_t Fabric::Reap()
{
    void *done[16];
    const ssize_t count = m_Queue->Ops->Read(m_Queue.get(), done, 16);
    if (count == -ofi::ErrorAvailable)
    {
        ofi::QueueError error{};
        m_Queue->Ops->ReadError(m_Queue.get(), &error, 0);
        Check(-error.Error, "transfer");
    }
    if (count == -ofi::TryAgain)
    {
        return 0;
    }
    Check(static_cast<int>(std::min<ssize_t>(count, 0)), "queue");
    for (ssize_t i = 0; i < count; ++i)
    {
        static_cast<Operation *>(done[i])->IsFree = true;
    }
    m_Running -= static_cast<size_t>(count);
    return static_cast<size_t>(count);
}

/** Waits a moment for something to happen. */
void Fabric::Wait(const int alive, double &idleSecs) const
{
    const auto start = std::chrono::steady_clock::now();
    // Not POLLIN of the connection: replies that come meanwhile are no end.
    pollfd both[2] = {{alive, POLLRDHUP, 0}, {m_Descriptor, POLLIN, 0}};
    const bool canWait = m_Descriptor >= 0 && MayWait();
    if (!canWait)
    {
        std::this_thread::sleep_for(PollInterval);
    }
    poll(both, canWait ? 2 : 1, canWait ? WaitMilliseconds : 0);
    if (both[0].revents != 0)
    {
        throw ConnectionLost("bbflow: the BB node is gone");
    }
    idleSecs += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (idleSecs > MostIdleSecs)
    {
        throw FabricError("bbflow: libfabric's provider " + std::string(m_Info->Fabric->Provider) +
                          " has moved nothing for a minute");
    }
}

Fabric::Operation &Fabric::FreeOperation(const int alive)
{
    double idleSecs = 0.0;
    while (m_Running == m_Operations.size())
    {
        if (Reap() == 0)
        {
            Wait(alive, idleSecs);
        }
    }
    return *std::find_if(m_Operations.begin(), m_Operations.end(),
                         [](const Operation &operation) { return operation.IsFree; });
}

/** Begins an operation as soon as the provider takes it. */
template <class Begin>
void Fabric::Start(const int alive, Begin begin)
{
    Operation &operation = FreeOperation(alive);
    double idleSecs = 0.0;
    ssize_t status = 0;
    while ((status = begin(static_cast<void *>(&operation))) == -ofi::TryAgain)
    {
        if (Reap() == 0)
        {
            Wait(alive, idleSecs);
        }
    }
    Check(static_cast<int>(status), "transfer");
    operation.IsFree = false;
    ++m_Running;
}

void Fabric::Write(const Region &lent, const std::string_view source, const uint64_t place,
                   const uint64_t key, const int alive)
{
    Start(alive,
          [&](void *operation)
          {
              return m_Endpoint->Rma->Write(m_Endpoint.get(), source.data(), source.size(),
                                            lent.Description(), m_Peer, place, key, operation);
          });
    m_LastPlace = place;
    m_LastKey = key;
}

void Fabric::Read(char *own, const size_t bytes, const uint64_t place, const uint64_t key,
                  const int alive)
{
    const Region lent = Lend(own, bytes);
    const size_t most = std::min(MostReadBytes, MostBytes());
    for (size_t at = 0; at < bytes; at += most)
    {
        Start(alive,
              [&](void *operation)
              {
                  return m_Endpoint->Rma->Read(m_Endpoint.get(), own + at,
                                               std::min(most, bytes - at), lent.Description(),
                                               m_Peer, place + at, key, operation);
              });
    }
    AwaitAll(alive);
}

/** Returns when all that was begun is done. */
void Fabric::AwaitAll(const int alive)
{
    double idleSecs = 0.0;
    while (m_Running > 0)
    {
        if (Reap() > 0)
        {
            idleSecs = 0.0;
        }
        else
        {
            Wait(alive, idleSecs);
        }
    }
}

void Fabric::Finish(const int alive)
{
    AwaitAll(alive);
    // A read comes back only behind the writes before it (`Libfabric::Find`): they are there then.
    if ((m_Info->Transmit->OpFlags & ofi::DeliveryComplete) == 0)
    {
        Start(alive,
              [&](void *operation)
              {
                  return m_Endpoint->Rma->Read(m_Endpoint.get(), m_ReadBack.data(), 1,
                                               m_ReadBackLent.Description(), m_Peer, m_LastPlace,
                                               m_LastKey, operation);
              });
        AwaitAll(alive);
    }
}

} // end namespace bbflow
