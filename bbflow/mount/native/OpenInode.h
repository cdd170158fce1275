#pragma once

#include "FileLock.h"
#include "FileMap.h"
#include "Volume.h"

#include <atomic>
#include <set>

namespace bbflow
{

/** Size and time of a file that its master doesn't know yet, if there are such. Who tells of a file
 *  takes this first and what the master says then: a commit in between is in both, not in neither.
 */
struct Unwritten
{
    std::optional<uint64_t> Size;
    timespec Time = {};

    void Show(struct stat &attributes) const;
};

/** What a commit is for. */
enum class CommitFor
{
    /** close(2) of a writer's descriptor, which no other call on it follows. */
    Close,
    /** fsync(2). */
    Sync,
    /** A call that what was written before must not outlast. */
    Change
};

/** A file that is open here, once or several times: all who have it open see one state, with what
 *  was written and not committed yet. Methods throw Errno; EINTR if the caller doesn't wait any
 *  longer for others, who may wait for a node or a master. */
class OpenInode
{
public:
    /** @param number of all that were opened, this one's */
    OpenInode(Volume &volume, FileId id, uint64_t number)
    : m_Volume(volume), m_Id(id), m_Number(number)
    {
    }
    ~OpenInode();

    /** Takes in the master's reply to `open` or `create`.
     *  @return the handle; it is closed if this throws */
    int64_t TakeOpened(const Caller &caller, const Value &reply, bool isForWriting,
                       bool isTruncated);

    /** Opens it for writing again, if it is: the handle is shared, the master isn't asked.
     *  Waits for a program that is just asking it: else this one's own question would wait there
     *  until no one here writes any more.
     *  @return the handle; if there is none, whoever calls is to ask, and to say when that is over
     *  @throws Errno EBUSY if that is the answer again and again */
    std::optional<int64_t> ShareWriting(const Caller &caller);

    /** The master was asked to open it for writing.
     *  @param error by which it has refused; 0 if it hasn't */
    void EndAsking(int error);

    /** Waits a moment if a writer has just closed it: the kernel may tell of a file's last close(2)
     *  after it asks for the next thing. */
    void WaitForClosing(const Caller &caller);

    /** Opens it for reading again, if what is open is what the master has.
     *  @param latest what the master says of it
     *  @return the handle */
    std::optional<int64_t> ShareReading(const Caller &caller, const Attr &latest);

    /** One open file less, also where it throws. */
    void CloseWriting(const Caller &caller, int64_t handle);

    /** @param isOnlyIfCold as IsCold
     *  @return false if it isn't, or is just being read or written: then nothing has happened */
    bool TryCloseReading(int64_t handle, bool isOnlyIfCold);

    /** Whether its bytes may still be on their way from the shared storage. */
    bool IsCold(const Caller &caller);

    size_t Read(const Caller &caller, char *target, size_t most, uint64_t offset);

    /** Writes what of some bytes belongs into one piece.
     *  @param done grows by how many they are
     *  @return the room that is lacking, if it is: then nothing has happened */
    std::optional<Lack> TryWritePart(const Caller &caller, std::string_view bytes, uint64_t offset,
                                     uint64_t &done);

    /** Where an append goes: to the file's end, as programs of this mount see it.
     *  @param offset where the kernel thinks that it is: it doesn't know what another mount has
     *  written since it last asked */
    uint64_t EndFor(const Caller &caller, uint64_t offset);

    /** Changes the size; counts for others with the next commit.
     *  @return false if it isn't open for writing: then nothing has happened */
    bool TryTruncate(const Caller &caller, uint64_t size);

    /** Makes what was written count on all clients, if there is anything. */
    void Commit(const Caller &caller, CommitFor what);

    Unwritten NotCommitted();

    uint64_t Size(const Caller &caller);

    /** Takes in what others have made of it, unless it is written here or the master is away. */
    void LookAgain(const Caller &caller);

    bool IsWritten(const Caller &caller);

    /** Whether the file's beginning, or all of it, lies on this host or will. */
    bool IsHere(const Caller &caller);

    /** A local file that holds just the file's bytes and doesn't change; -1 if there is none. */
    int Backing(const Caller &caller);

    /** Whether what the kernel has of the file from before is what it has now. From here on the
     *  kernel has pages of it. */
    bool MayKeepPages(const Caller &caller);

private:
    Volume &m_Volume;
    const FileId m_Id;
    const uint64_t m_Number;

    /** Readers share it, who writes has it alone. */
    FileLock m_Lock;
    FileMap m_Map;
    /** What the master called the bytes of the map; nothing if it must be asked for them again.
     */
    std::optional<uint64_t> m_Committed;
    /** The newest version that the map was: a reply that comes late may have an older one. */
    uint64_t m_Newest = 0;
    uint64_t m_Generation = 0;
    /** Handles; one of the readers' may have been opened to find pieces that moved. */
    std::vector<int64_t> m_Readers;
    std::vector<int64_t> m_Writers;
    /** Whether the map is newer than what was committed. */
    bool m_IsDirty = false;
    /** Whether a change of a piece has failed, of which bytes may lie, or come yet, on a node. */
    bool m_HasFailed = false;
    /** Whether nobody knows if the last commit counts: its reply never came. Files of the map may
     * be others' then, and don't change before another commit gives them their new version. */
    bool m_IsUnsure = false;
    /** Whether the last commit was refused: what a node has lost counts never again under its
     * version. */
    bool m_IsRefused = false;
    /** Whether a writer closed it, and nothing was written since. */
    bool m_IsClosing = false;
    /** Whether the master is being asked to open it for writing; how often it has been, and what
     *  came of it last. Who has asked must not wait for the lock to say so. */
    std::atomic<bool> m_IsAsking{false};
    std::atomic<uint64_t> m_Asked{0};
    std::atomic<int> m_Refusal{0};
    /** What the kernel's pages were when it was last opened, if it has any. */
    std::optional<Content> m_Pages;

    /** What stat(2) shows, so that it needn't wait for a write. */
    std::mutex m_ShownMutex;
    Unwritten m_Shown;

    /** Parts of a cold file that are known to have come: piece and number of the part. */
    std::mutex m_ReadyMutex;
    std::set<std::pair<uint64_t, uint64_t>> m_Ready;

    FileLock::Alone LockToTake(const Caller &caller, int64_t handle);
    void CheckGeneration() const;
    bool HasOwnMap() const;
    void TakeMap(const Value &reply, bool isForWriting);
    void DropHandle(std::vector<int64_t> &handles, int64_t handle);

    // OpenInodeRead.cpp
    void Reopen(const Caller &caller);
    size_t ReadOnce(const Caller &caller, char *target, size_t most, uint64_t offset);
    void ReadPiece(const Caller &caller, uint64_t index, char *target, size_t most,
                   uint64_t offset);
    std::shared_ptr<PieceFile> FileFor(uint64_t index, uint64_t replica);
    void WaitUntilReady(const Caller &caller, uint64_t index, uint64_t offset, uint64_t bytes);

    // OpenInodeWrite.cpp
    enum class WriteMode
    {
        InPlace,
        Append,
        New,
        Copy
    };
    WriteMode ModeOf(uint64_t index, uint64_t offset, uint64_t bytes) const;
    FileLock::Alone LockToChange(const Caller &caller);
    void Prepare(const Caller &caller, uint64_t index, WriteMode mode, Piece &piece);
    bool TryCut(const Caller &caller, const Piece &piece, uint64_t bytes);
    void Undo(const Caller &caller, uint64_t index, const Piece &piece);
    void MarkDirty();
    void RequireWritten();
    Value::Array PiecesForCommit() const;
    Value AskToCommit(const Caller &caller, CommitFor what);
    void SettleNodes(const Caller &caller);
    void LeaveWriting(int64_t handle);
    void LoseWritten();
    void Settle();
};

} // end namespace bbflow
