#pragma once

#include <cstddef>
#include <cstdint>
#include <sys/types.h>
#include <sys/uio.h>

/** What is used of libfabric, as its interface 1.3 has it (the symbols' version FABRIC_1.3, which
 * all since libfabric 1.5 export). Declared here, and not taken from its headers: hosts that build
 * wheels have none, and those that run them have the library alone. tests/test_fabric.py compares
 * it with the headers where they are. */
namespace bbflow::ofi
{

constexpr uint32_t Version = (1u << 16) | 9u;

constexpr uint64_t Rma = 1ull << 2;
constexpr uint64_t Read = 1ull << 8;
constexpr uint64_t Write = 1ull << 9;
constexpr uint64_t Transmit = 1ull << 11;
constexpr uint64_t Recv = 1ull << 10;
constexpr uint64_t RemoteRead = 1ull << 12;
constexpr uint64_t RemoteWrite = 1ull << 13;
constexpr uint64_t DeliveryComplete = 1ull << 28;
constexpr uint64_t OfGpus = 1ull << 47;
constexpr uint64_t Source = 1ull << 57;
constexpr uint64_t ReadAfterWrite = 1ull << 1;
constexpr uint64_t AnyContext = (1ull << 59) | (1ull << 52);

enum EndpointType
{
    Unspecified,
    Connected,
    Datagram,
    ReliableDatagram
};

enum MemoryMode
{
    LocalMemory = 1 << 2,
    VirtualAddress = 1 << 4,
    Allocated = 1 << 5,
    ProviderKey = 1 << 6,
    OfEndpoint = 1 << 9,
    GpuMemory = 1 << 10
};

enum WaitObject
{
    NoWait = 0,
    WaitDescriptor = 3
};

enum ControlCommand
{
    GetWait = 5,
    Enable = 6
};

enum ErrorNumber
{
    TryAgain = 11,
    ErrorAvailable = 259
};

constexpr uint32_t LastSocketAddress = 4; // above it addresses are no hosts'
constexpr int ByContext = 1;              // a queue's format
using PeerAddress = uint64_t;

struct Fid;

struct FidOps
{
    size_t Size;
    int (*Close)(Fid *fid);
    int (*Bind)(Fid *fid, Fid *other, uint64_t flags);
    int (*Control)(Fid *fid, int command, void *argument);
    void *Later[3];
};

struct Fid
{
    size_t Class;
    void *Context;
    FidOps *Ops;
};

struct TransmitAttributes
{
    uint64_t Caps, Mode, OpFlags, MessageOrder, CompletionOrder;
    size_t InjectSize, Size, IovLimit, RmaIovLimit;
};

struct ReceiveAttributes
{
    uint64_t Caps, Mode, OpFlags, MessageOrder, CompletionOrder;
    size_t BufferedBytes, Size, IovLimit;
};

struct EndpointAttributes
{
    int Type;
    uint32_t Protocol, ProtocolVersion;
    size_t MaxMessageBytes, PrefixBytes, MaxOrderedRaw, MaxOrderedWar, MaxOrderedWaw;
    uint64_t TagFormat;
    size_t TransmitContexts, ReceiveContexts, AuthKeySize;
    uint8_t *AuthKey;
};

struct DomainAttributes
{
    void *Domain;
    char *Name;
    int Threading, ControlProgress, DataProgress, ResourceManagement, VectorType, MemoryMode;
    size_t KeyBytes, QueueDataBytes, Queues, Endpoints, TransmitContexts, ReceiveContexts,
        MaxTransmitContexts, MaxReceiveContexts, MaxSharedTransmit, MaxSharedReceive, Counters,
        MemoryIovLimit;
    uint64_t Caps, Mode;
    uint8_t *AuthKey;
    size_t AuthKeySize, MaxErrorData, Regions;
};

struct FabricAttributes
{
    void *Fabric;
    char *Name;
    char *Provider;
    uint32_t ProviderVersion, ApiVersion;
};

struct Info
{
    Info *Next;
    uint64_t Caps, Mode;
    uint32_t AddressFormat;
    size_t SourceBytes, TargetBytes;
    void *Source, *Target;
    Fid *Handle;
    TransmitAttributes *Transmit;
    ReceiveAttributes *Receive;
    EndpointAttributes *Endpoint;
    DomainAttributes *Domain;
    FabricAttributes *Fabric;
    void *Nic;
};

struct QueueAttributes
{
    size_t Size;
    uint64_t Flags;
    int Format, Wait, SignalingVector, Condition;
    void *WaitSet;
};

struct VectorAttributes
{
    int Type, ContextBits;
    size_t Count, EndpointsPerNode;
    const char *Name;
    void *Map;
    uint64_t Flags;
};

struct QueueError
{
    void *Context;
    uint64_t Flags;
    size_t Bytes;
    void *Buffer;
    uint64_t Data, Tag;
    size_t OverflowBytes;
    int Error, ProviderError;
    void *ErrorData;
    size_t ErrorDataBytes;
};

struct Queue;
struct QueueOps
{
    size_t Size;
    ssize_t (*Read)(Queue *queue, void *entries, size_t count);
    void *ReadFrom;
    ssize_t (*ReadError)(Queue *queue, QueueError *error, uint64_t flags);
    void *Waiting[3];
    const char *(*ErrorText)(Queue *queue, int providerError, const void *data, char *text,
                             size_t bytes);
};
struct Queue
{
    bbflow::ofi::Fid Fid;
    QueueOps *Ops;
};

struct Vector;
struct VectorOps
{
    size_t Size;
    int (*Insert)(Vector *vector, const void *addresses, size_t count, PeerAddress *peers,
                  uint64_t flags, void *context);
};
struct Vector
{
    bbflow::ofi::Fid Fid;
    VectorOps *Ops;
};

struct Region
{
    bbflow::ofi::Fid Fid;
    void *Description;
    uint64_t Key;
};

/** Whose memory it is: a GPU's, of which runtime, and its number there. */
struct Owner
{
    enum
    {
        Host,
        Cuda,
        Rocr
    } Kind;
    int Number;
};

struct RegionAttributes
{
    const iovec *Pieces;
    size_t Count;
    uint64_t Access, Offset, Key;
    void *Context;
    size_t AuthKeySize;
    uint8_t *AuthKey;
    int Kind;
    uint64_t Number;
    void *Later[8];
};

struct Endpoint;
struct NameOps
{
    size_t Size;
    void *SetName;
    int (*GetName)(Fid *fid, void *address, size_t *bytes);
};
struct RmaOps
{
    size_t Size;
    ssize_t (*Read)(Endpoint *endpoint, void *buffer, size_t bytes, void *description,
                    PeerAddress peer, uint64_t place, uint64_t key, void *context);
    void *ReadForms[2];
    ssize_t (*Write)(Endpoint *endpoint, const void *buffer, size_t bytes, void *description,
                     PeerAddress peer, uint64_t place, uint64_t key, void *context);
};
struct Endpoint
{
    bbflow::ofi::Fid Fid;
    void *Ops;
    NameOps *Names;
    void *Messages;
    RmaOps *Rma;
};

struct Domain;
struct DomainOps
{
    size_t Size;
    int (*OpenVector)(Domain *domain, VectorAttributes *attributes, Vector **vector, void *context);
    int (*OpenQueue)(Domain *domain, QueueAttributes *attributes, Queue **queue, void *context);
    int (*OpenEndpoint)(Domain *domain, Info *info, Endpoint **endpoint, void *context);
};
struct RegionOps
{
    size_t Size;
    int (*Register)(Fid *domain, const void *memory, size_t bytes, uint64_t access, uint64_t offset,
                    uint64_t key, uint64_t flags, Region **region, void *context);
    void *RegisterPieces;
    int (*RegisterBy)(Fid *domain, const RegionAttributes *attributes, uint64_t flags,
                      Region **region);
};
struct Domain
{
    bbflow::ofi::Fid Fid;
    DomainOps *Ops;
    RegionOps *Regions;
};

struct Fabric;
struct FabricOps
{
    size_t Size;
    int (*OpenDomain)(Fabric *fabric, Info *info, Domain **domain, void *context);
    void *Others[3];
    int (*TryWait)(Fabric *fabric, Fid **fids, int count);
};
struct Fabric
{
    bbflow::ofi::Fid Fid;
    FabricOps *Ops;
    uint32_t ApiVersion;
};

} // end namespace bbflow::ofi
