#pragma once

#include "Entry.h"

#include <chrono>
#include <mutex>
#include <unordered_map>

namespace bbflow
{

/** What the kernel has in its memory of files, by its numbers. */
class KnownNodes
{
public:
    /** A file that the kernel has asked about by its number, or is just told that it has made: it
     *  surely has it in its memory. What a lookup tells of others could count after it was called
     *  back: the kernel doesn't know yet whom to forget. */
    void Note(const uint64_t node)
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        m_Nodes[node].IsAsked = true;
    }

    bool Has(const uint64_t node)
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        const auto found = m_Nodes.find(node);
        return found != m_Nodes.end() && found->second.IsAsked;
    }

    /** The kernel says that it doesn't know a file.
     *  @return whether it seemed to */
    bool Drop(const uint64_t node)
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        const auto found = m_Nodes.find(node);
        return found != m_Nodes.end() && std::exchange(found->second.IsAsked, false);
    }

    /** The kernel is told of a file under its name, and counts that until it forgets it. */
    void Look(const uint64_t node)
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        ++m_Nodes[node].Lookups;
    }

    /** The kernel forgets so many lookups of a file; what it was told since counts. */
    void Forget(const uint64_t node, const uint64_t lookups)
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        const auto found = m_Nodes.find(node);
        if (found != m_Nodes.end() && found->second.Lookups <= lookups)
        {
            m_Nodes.erase(found);
        }
        else if (found != m_Nodes.end())
        {
            found->second.Lookups -= lookups;
        }
    }

    /** The kernel will be told a file's size.
     *  @return the one that it was told before */
    uint64_t Announce(const uint64_t node, const uint64_t size)
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        Known &known = m_Nodes[node];
        Take(known, size);
        return known.Last;
    }

    /** The kernel is told a size that was announced. */
    void Tell(const uint64_t node, const uint64_t size)
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        m_Nodes[node].Last = size;
    }

    /** The kernel makes a file at least so long. */
    void Extend(const uint64_t node, const uint64_t size)
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        Known &known = m_Nodes[node];
        known.Last = std::max(known.Last, size);
        Take(known, known.Last);
    }

    /** The kernel itself changes a file's size: what it was told before counts no more, whenever it
     *  takes that in. */
    void SetSize(const uint64_t node, const uint64_t size)
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        Known &known = m_Nodes[node];
        known.Most = known.Last = size;
        known.HasShrunk = false;
    }

    /** Whether the kernel may take a file for longer than it is: it would fill what it lacks with
     *  zeros. */
    bool MayBeLonger(const uint64_t node, const uint64_t size)
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        Known &known = m_Nodes[node];
        if (known.HasShrunk && Clock::now() - known.Shrunk > TakingIn)
        {
            known.Most = known.Later;
            known.HasShrunk = false;
        }
        return known.Most > size;
    }

    /** Whether the kernel was last told another size. */
    bool HasOtherSize(const uint64_t node, const uint64_t size)
    {
        const std::lock_guard<std::mutex> lock(m_Mutex);
        return m_Nodes[node].Last != size;
    }

private:
    using Clock = std::chrono::steady_clock;

    /** A thread of the kernel that has an answer takes it in within this time: it need only run.
     *  Answers come in any order, and which one counted is never said. */
    static constexpr std::chrono::seconds TakingIn{10};

    struct Known
    {
        bool IsAsked = false;
        uint64_t Lookups = 0;
        /** The largest size that the kernel may have, and the last one that it was told. */
        uint64_t Most = 0;
        uint64_t Last = 0;
        /** Whether it was told smaller ones since, the largest of these, and when that began. */
        bool HasShrunk = false;
        uint64_t Later = 0;
        Clock::time_point Shrunk{};
    };

    std::mutex m_Mutex;
    std::unordered_map<uint64_t, Known> m_Nodes;

    static void Take(Known &known, const uint64_t size)
    {
        if (size >= known.Most)
        {
            known.Most = size;
            known.HasShrunk = false;
        }
        else if (!std::exchange(known.HasShrunk, true))
        {
            known.Later = size;
            known.Shrunk = Clock::now();
        }
        else
        {
            known.Later = std::max(known.Later, size);
        }
    }
};

} // end namespace bbflow
