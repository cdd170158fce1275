#include "Volume.h"

#include "OpenInode.h"

namespace bbflow
{

namespace
{

/** Room is asked for in such pieces, so that a stream of writes seldom asks. */
constexpr uint64_t RoomBytes = uint64_t{16} << 20;
/** How many files are remembered when they aren't open. */
constexpr size_t MostOpened = 8192;

} // end empty namespace

Volume::Volume(const MountedContact &contact, const uint64_t master, const double patience,
               const KernelMemory &kernel)
: m_Kernel(kernel), m_Nodes(contact.Key(), patience)
{
    LinkListener listener;
    listener.OnForget = [this](const Forgotten &what)
    {
        if (!what.Files.empty()) // once they are forgotten here, no notice of their names comes
        {
            m_Kernel.ForgetNames();
        }
        for (const FileId id : what.Files)
        {
            m_Kernel.ForgetAttributes(id);
            m_Lingering.Close(id);
        }
    };
    listener.OnNodes = [this](const Value &message) { m_Nodes.Update(message.ArrayAt("nodes")); };
    listener.OnPause = [this] { m_Lingering.CloseOld(); };
    listener.OnReply = [this](const Value &reply) { TakeGiven(reply); };
    listener.Holding = [this] { return Holding(); };
    listener.OnSession = [this](const Value &session, const bool isNew)
    { BeginSession(session, isNew); };
    m_Link = std::make_unique<MasterLink>(contact, master, patience, std::move(listener));
    m_Nodes.Hold();
}

Volume::~Volume() { m_Lingering.CloseAll(); }

Held Volume::Holding()
{
    Held held;
    held.Room = m_Room.Held();
    const std::lock_guard<std::mutex> lock(m_HandlesMutex);
    for (const auto &[handle, what] : m_Handles)
    {
        held.Handles.push_back(Value::Array{handle, what.Id, what.Version, what.IsForWriting});
    }
    return held;
}

void Volume::TakeGiven(const Value &reply)
{
    m_Room.Update(reply);
    if (reply.Find("handle") != nullptr)
    {
        const Value &attr = *reply.Find("attr");
        const Value *version = reply.Find("version"); // what it writes
        const std::lock_guard<std::mutex> lock(m_HandlesMutex);
        m_Handles[reply.IntegerAt("handle")] = {attr.UnsignedAt("ino"),
                                                version != nullptr ? version->AsUnsigned()
                                                                   : attr.UnsignedAt("version"),
                                                version != nullptr};
    }
}

void Volume::CloseHandle(const int64_t handle, const bool isDirty)
{
    {
        const std::lock_guard<std::mutex> lock(m_HandlesMutex);
        if (m_Handles.erase(handle) == 0)
        {
            return; // its session is over
        }
    }
    Value::Map room;
    for (const auto &[node, bytes] : m_Room.TakeSurplus())
    {
        room.emplace_back(node, bytes);
    }
    m_Link->Tell(
        Value::Map{{"op", "close"}, {"handle", handle}, {"room", room}, {"dirty", isDirty}});
}

void Volume::BeginSession(const Value &session, const bool isNew)
{
    m_Nodes.Update(session.ArrayAt("nodes"));
    m_Kernel.ForgetNames(); // changes made meanwhile were not announced
    if (isNew)
    {
        m_Room.Restart();
        const std::lock_guard<std::mutex> lock(m_HandlesMutex);
        m_Handles.clear();
    }
}

void Volume::WaitForRoom(const Caller &caller, const Lack &lack)
{
    m_Lingering.CloseAll();
    m_Link->Ask(caller, {{"op", "room"},
                         {"node", lack.Node},
                         {"bytes", lack.Bytes},
                         {"wish", std::max(lack.Bytes, RoomBytes)}});
}

std::shared_ptr<OpenInode> Volume::StateOf(const FileId id)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    if (m_Open.size() > MostOpened)
    {
        for (auto one = m_Open.begin(); one != m_Open.end();)
        {
            one = one->second.State.expired() ? m_Open.erase(one) : std::next(one);
        }
    }
    Opened &opened = m_Open[id];
    std::shared_ptr<OpenInode> state = opened.State.lock();
    if (!state)
    {
        opened.Number = ++m_Opens;
        state = std::make_shared<OpenInode>(*this, id, opened.Number);
        opened.State = state;
    }
    return state;
}

std::shared_ptr<OpenInode> Volume::FindState(const FileId id)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    const auto found = m_Open.find(id);
    return found == m_Open.end() ? nullptr : found->second.State.lock();
}

Unwritten Volume::UnwrittenOf(const FileId id)
{
    const std::shared_ptr<OpenInode> state = FindState(id);
    return state ? state->NotCommitted() : Unwritten{};
}

bool Volume::HasPages(const FileId id, const Content &bytes)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    const auto found = m_Open.find(id);
    return found != m_Open.end() && found->second.Pages == bytes;
}

void Volume::NotePages(const FileId id, const uint64_t number, std::optional<Content> bytes)
{
    const std::lock_guard<std::mutex> lock(m_Mutex);
    const auto found = m_Open.find(id);
    if (found != m_Open.end() && found->second.Number == number) // else it is open again
    {
        found->second.Pages = std::move(bytes);
    }
}

} // end namespace bbflow
