#pragma once

#include "FileMap.h"
#include "Ionodes.h"
#include "KernelMemory.h"
#include "LingeringOpens.h"
#include "MasterLink.h"
#include "RoomLedger.h"

#include <map>

namespace bbflow
{

class OpenInode;
struct Unwritten;

/** One master's part of the namespace as this client sees it: the session, the room, the nodes and
 *  what is open. */
class Volume
{
public:
    Volume(const MountedContact &contact, uint64_t master, double patience,
           const KernelMemory &kernel);
    ~Volume();

    MasterLink &Link() { return *m_Link; }
    RoomLedger &Room() { return m_Room; }
    Ionodes &Nodes() { return m_Nodes; }
    KeptMetadata &Kept() { return m_Link->Kept(); }
    LingeringOpens &Lingering() { return m_Lingering; }

    /** Asks for room, and waits for it. @throws Errno ENOSPC if there will be none */
    void WaitForRoom(const Caller &caller, const Lack &lack);

    /** Closes it. @param isDirty whether something was written that no commit has */
    void CloseHandle(int64_t handle, bool isDirty);

    /** The file's state that all who have it open here share. */
    std::shared_ptr<OpenInode> StateOf(FileId id);

    /** The same, or nullptr if it isn't open. */
    std::shared_ptr<OpenInode> FindState(FileId id);

    /** What programs here have written to a file and its master doesn't know yet. */
    Unwritten UnwrittenOf(FileId id);

    /** Whether the kernel's pages of a file, from when it was last open, are these bytes. */
    bool HasPages(FileId id, const Content &bytes);

    /** The kernel's pages of a file stay when it is no longer open.
     *  @param bytes what they are, if that is known */
    void NotePages(FileId id, uint64_t number, std::optional<Content> bytes);

private:
    /** A file that is or was open. */
    struct Opened
    {
        std::weak_ptr<OpenInode> State;
        uint64_t Number = 0;
        std::optional<Content> Pages;
    };

    /** A file that is open at the master. */
    struct OpenHandle
    {
        FileId Id;
        uint64_t Version;
        bool IsForWriting;
    };

    const KernelMemory &m_Kernel;
    Ionodes m_Nodes;
    RoomLedger m_Room;
    std::mutex m_Mutex;
    std::unordered_map<FileId, Opened> m_Open;
    uint64_t m_Opens = 0;
    std::mutex m_HandlesMutex;
    std::map<int64_t, OpenHandle> m_Handles;
    LingeringOpens m_Lingering;
    std::unique_ptr<MasterLink> m_Link;

    /** Room and handles of a reply, to come back with them after a lost connection. */
    void TakeGiven(const Value &reply);
    Held Holding();
    void BeginSession(const Value &session, bool isNew);
};

} // end namespace bbflow
