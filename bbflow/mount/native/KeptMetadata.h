#pragma once

#include "Entry.h"
#include "Value.h"

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace bbflow
{

/** What a master says of a file (bbflow/files/FORMAT.md, `attr`). */
struct Attr
{
    Entry File;
    uint64_t Version = 0;
};

/** @throws std::runtime_error if it is none */
Attr AttrFrom(const Value &attr);

/** What a master told to forget. */
struct Forgotten
{
    uint64_t Seq = 0;
    std::vector<FileId> Files;
    std::vector<std::pair<FileId, std::string>> Names;
    std::vector<FileId> Directories;
};

/** @throws std::runtime_error if the message is no `forget` */
Forgotten ForgottenFrom(const Value &message);

/** What a client may keep of a master's replies (bbflow/files/FORMAT.md, "What a client may keep").
 *  The own changes are put in as they are answered; others' come as Forgotten. Replies come on
 *  several connections, so one may be taken in after a newer one: what is kept of a file is never
 *  older than what was kept, or changed from here, before. */
class KeptMetadata
{
public:
    using Time = std::chrono::steady_clock::time_point;

    /** Nothing is given out after this time, until it is set again. */
    void SetLease(Time until);

    std::optional<Attr> Find(FileId id);
    std::optional<Attr> Find(FileId parent, const std::string &name);

    /** Whether it is known that a directory has no such name. */
    bool HasNot(FileId parent, const std::string &name);

    /** Keeps a reply, unless it is older than what is known, or was to be forgotten. */
    void Keep(const Attr &attr, uint64_t seq);
    void Keep(FileId parent, const std::string &name, const Attr &attr, uint64_t seq);
    void KeepList(FileId directory, const std::vector<std::string> &names, uint64_t seq);

    /** A name is gone by an own call, and with it what was known of its file. */
    void Drop(FileId parent, const std::string &name, uint64_t seq);

    /** A directory has changed in more ways by an own call than this client can tell. */
    void DropDirectory(FileId directory, uint64_t seq);

    /** A directory has changed by an own call: its times, and how many directories are in it. */
    void Touch(FileId directory, int directories);

    void Forget(const Forgotten &what);

    /** A session begins: nothing is kept, and no reply from before this one will be. */
    void Restart(uint64_t seq);

private:
    struct Known
    {
        Attr File;
        Time Until;
        /** Of the reply that it is from. */
        uint64_t Seq = 0;
        /** Names that were found before the file was forgotten don't count any more. */
        uint64_t Stamp;
    };
    struct Name
    {
        FileId Id;
        uint64_t Stamp;
    };
    struct Directory
    {
        std::unordered_map<std::string, Name> Names;
        /** All its names, if that is known. */
        std::optional<std::unordered_set<std::string>> All;
        /** Of the newest reply about a name in it: a list from before may lack that. */
        uint64_t Seq = 0;
    };

    std::mutex m_Mutex;
    Time m_Lease{};
    /** Replies from before it are not kept. */
    uint64_t m_Oldest = 0;
    uint64_t m_Newest = 0;
    uint64_t m_Stamps = 0;
    std::unordered_map<FileId, Known> m_Files;
    std::unordered_map<FileId, Directory> m_Directories;

    Known *FindLocked(FileId id);
    bool MayKeep(uint64_t seq);
    Known &KeepLocked(const Attr &attr, uint64_t seq);
    void DropOlder(FileId id, uint64_t seq);
};

} // end namespace bbflow
