#include "KeptStreams.h"

#include "StreamShare.h"

#include <cstdlib>
#include <iostream>
#include <map>
#include <mutex>
#include <stdexcept>
#include <unistd.h>

namespace bbflow
{

namespace
{

std::mutex Lock;
/** By contact file and name; nullptr while someone writes it. Guarded by Lock. */
std::map<std::string, std::unique_ptr<OpenStream>> Kept;

/** Who has them; guarded by Lock. */
pid_t Owner = getpid();

/** A fork has copies of its parent's streams, whose connections are the parent's: it leaves them as
 * they are. */
void LeaveParents()
{
    if (Owner == getpid())
    {
        return;
    }
    for (auto &[key, stream] : Kept)
    {
        static_cast<void>(stream.release());
    }
    Kept.clear();
    Owner = getpid();
}

std::string KeyOf(const Parameters &parameters)
{
    return parameters.Contact + "\n" + ShareOf(parameters).Stream;
}

void End(OpenStream &stream, const bool isWhole)
{
    try
    {
        isWhole ? stream.Close() : stream.Abort();
    }
    catch (const std::exception &error)
    {
        std::cerr << std::string(error.what()) + "\n" << std::flush;
    }
}

/** At exit. Neither ADIOS2 nor MPI is touched: both may be over by now. */
void EndAll(const int status, void *)
{
    if (Owner != getpid())
    {
        return; // a fork, whose parent writes on; and which may have had the lock
    }
    const std::lock_guard<std::mutex> guard(Lock);
    for (auto &[key, stream] : Kept)
    {
        if (stream)
        {
            End(*stream, status == 0);
            stream.reset();
        }
    }
}

/** `atexit` would do, but doesn't say whether the program has failed. */
void EndAllAtExit()
{
    static const int done = on_exit(EndAll, nullptr);
    if (done != 0)
    {
        throw std::runtime_error("bbflow: the C library takes no more functions for the exit");
    }
}

void CheckRanks(const Parameters &now, const Parameters &before)
{
    if (now.Place.Rank != before.Place.Rank || now.Place.Writers != before.Place.Writers)
    {
        const auto tell = [](const RankOf &place)
        { return std::to_string(place.Rank) + " of " + std::to_string(place.Writers); };
        throw std::runtime_error("bbflow: this process is rank " + tell(now.Place) +
                                 " where it opens stream '" + now.Stream + "', but was rank " +
                                 tell(before.Place) +
                                 " there before: all of its files must be opened by the same "
                                 "ranks, or be streams of their own (Stream)");
    }
}

} // end empty namespace

std::unique_ptr<OpenStream> KeptStreams::Take(const Parameters &parameters)
{
    const std::string key = KeyOf(parameters);
    {
        const std::lock_guard<std::mutex> guard(Lock);
        LeaveParents();
        EndAllAtExit();
        // An empty slot says that someone has it: below, Open waits for nodes without the lock.
        const auto [slot, isNew] = Kept.try_emplace(key);
        if (!isNew && !slot->second)
        {
            throw std::runtime_error("bbflow: stream '" + parameters.Stream +
                                     "' is open already: its files follow each other, so Close "
                                     "one before the next, or give them different streams");
        }
        if (!isNew)
        {
            CheckRanks(parameters, slot->second->Given());
            return std::move(slot->second);
        }
    }
    try
    {
        return std::make_unique<OpenStream>(parameters);
    }
    catch (...)
    {
        Forget(parameters);
        throw;
    }
}

void KeptStreams::Keep(std::unique_ptr<OpenStream> stream)
{
    const std::lock_guard<std::mutex> guard(Lock);
    const std::string key = KeyOf(stream->Given());
    Kept[key] = std::move(stream);
}

bool KeptStreams::Has(const Parameters &parameters)
{
    const std::lock_guard<std::mutex> guard(Lock);
    LeaveParents();
    const auto found = Kept.find(KeyOf(parameters));
    return found != Kept.end() && found->second;
}

void KeptStreams::Forget(const Parameters &parameters)
{
    const std::lock_guard<std::mutex> guard(Lock);
    Kept.erase(KeyOf(parameters));
}

} // end namespace bbflow
