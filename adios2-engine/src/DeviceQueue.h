#pragma once

#include "Arena.h"
#include "GpuKernels.h"
#include "GpuMemory.h"
#include "Pool.h"
#include "RegisteredMemory.h"
#include "Scan.h"

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

namespace bbflow
{

/** Rows of a GPU's memory, as far from each other. */
struct DeviceRows
{
    const char *First;
    size_t RowBytes;
    size_t Count;
    size_t Pitch;
};

/** Whether memory is a GPU's, where the CPU can't read it. */
inline bool IsOnDevice(const void *memory) { return GpuRuntime::Of(memory) != nullptr; }

/** Copies of a GPU's memory that are under way into the host's. They run on streams of their own,
 * after all that the program had queued, and before all that it queues later: on a stream that it
 * names, else on its default one (that of the process) and those that wait for it. Small blocks are
 * copied on the GPU first, on the program's stream itself, and leave together: the host waits some
 * microseconds for each thing that it asks of a GPU. */
class DeviceQueue
{
public:
    /** @param programs stream on which the program fills its memory; null: its default one */
    explicit DeviceQueue(void *programs) : m_Programs(programs) {}
    /** Waits for all. */
    ~DeviceQueue();
    DeviceQueue(const DeviceQueue &) = delete;
    DeviceQueue &operator=(const DeviceQueue &) = delete;

    /** Begins to copy a block to its place in a pool.
     *  @param extent in which the place lies
     *  @param look sees the bytes when they are there; it lives until Finish
     *  @param isOurs whether the block lies in what Keep or Room gave
     *  @throws std::runtime_error if the runtime can't: nothing writes there any more then */
    void Copy(const std::vector<DeviceRows> &block, Pool &pool, const Arena::Place &extent,
              size_t offset, Scan &look, bool isOurs);

    /** Returns when all is done that the program had queued, and a block was looked at; false if
     *  only the host can look at it. */
    bool Await(const std::vector<DeviceRows> &block, Scan &look);

    /** Returns a copy in the host's memory, which lasts until the next. Takes and throws what Copy
     *  does. */
    const char *Read(const std::vector<DeviceRows> &block);

    /** Begins to copy a block into memory of the same GPU's.
     *  @param most bytes of it that may be ours
     *  @return where the copy is; null if it can't be folded there, which is said once: then none
     *  is from then on
     *  @throws what Copy does */
    std::shared_ptr<char> Keep(const std::vector<DeviceRows> &block, size_t most);

    /** Returns memory of the same GPU's for a state, as Keep does. */
    std::shared_ptr<char> Room(const char *block, size_t bytes, size_t most);

    /** Adds blocks to a state, all of them given by Keep and Room, after what has begun.
     *  @param kind of the values: i1 i2 i4 i8 u1 u2 u4 u8 f4 f8
     *  @throws std::runtime_error if the runtime can't, then and from Finish from then on */
    void Fold(size_t kind, const FoldTask &task);

    /** Returns when all is there.
     *  @throws std::runtime_error if something didn't come, then and from then on */
    void Finish();

private:
    /** Pairs of a smallest and a largest value. */
    struct Pairs
    {
        const char *First;
        size_t Count;
    };
    /** A block on its way. */
    struct Coming
    {
        char *Begin;
        size_t Bytes;
        /** What has its target; null if that is the GPU's own memory. */
        std::shared_ptr<const RegisteredMemory> Registered;
        Scan *Look;
        /** What kernels find; without any, the host looks at the bytes. */
        std::vector<Pairs> Found{};
    };
    /** A copy of a block on the GPU. */
    struct Staged
    {
        const char *First;
        Coming Block;
    };
    /** Rows of a block that a kernel looks at. */
    struct Seen
    {
        DeviceRows Rows;
        Coming *Block;
    };
    struct Line
    {
        std::shared_ptr<const GpuRuntime> Runtime;
        void *Home;
        void *Stream;
        /** The last of the program's work that copies come after. */
        void *Before;
        bool HasLooked = false;
        /** Loaded for the first block that needs them; null where there are none. */
        std::unique_ptr<const GpuKernels> Kernels{};
        /** Memory there in which blocks are folded. */
        std::unique_ptr<GpuMemory> Memory{};
        bool HasAskedForStage = false;
        /** Memory there in which small blocks wait; null where there is none. */
        std::shared_ptr<char> Stage{};
        size_t StagedBytes = 0;
        std::vector<Staged> Waiting{};
    };
    /** Memory of the host's in which kernels say what they have found. */
    struct Notes
    {
        std::unique_ptr<char[]> Memory;
        std::shared_ptr<const RegisteredMemory> Registered;
        size_t Used;
    };
    struct Copying
    {
        Line *On;
        void *Event;
        std::vector<Coming> Blocks;
    };
    void *const m_Programs;
    std::list<Line> m_Lines;
    std::list<Notes> m_Notes;
    std::vector<Copying> m_Copying;
    std::string m_Failure;
    NoScan m_Unseen;
    /** Whether a block was refused to be folded on the GPU. */
    bool m_FoldsElsewhere = false;
    /** Where blocks wait that don't go into a pool of this host. */
    std::unique_ptr<char[]> m_Memory;
    std::shared_ptr<const RegisteredMemory> m_Registered;

    Line &LineOf(const void *memory);
    const GpuKernels *KernelsOf(Line &line);
    std::shared_ptr<char> Room(Line &line, size_t bytes, size_t most);
    void Copy(Line &line, const std::vector<DeviceRows> &block, Coming coming);
    bool Stage(Line &line, void *stream, const std::vector<DeviceRows> &block,
               const Coming &coming);
    void SendStaged(Line &line);
    int Queue(Line &line, bool isBefore, std::vector<Coming> blocks,
              const std::function<int(std::vector<Coming> &)> &begin);
    void TakeIn(const Copying &copying);
    int CopyRows(const Line &line, void *stream, char *target, const std::vector<DeviceRows> &block,
                 bool isThere) const;
    void Look(Line &line, const std::vector<Seen> &parts);
    char *Note(const Line &line, size_t bytes, void **there);
    static std::string Failure(const GpuRuntime &runtime, size_t bytes, int status);
};

} // end namespace bbflow
