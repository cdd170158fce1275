#include "Dispatch.h"
#include "NodeFiles.h"

namespace bbflow
{

fuse_entry_out Dispatch::Found(const Caller &caller, const Entry &entry)
{
    const uint64_t node = m_Nodes.NodeOf(entry.Id);
    if (entry.IsNew)
    {
        m_Known.Note(node);
    }
    m_Known.Look(node);
    Announce(caller, node, entry.Attributes);
    const double kept = m_Files.KeptSecs(entry.Id);
    fuse_entry_out out =
        ToKernel(entry, node, m_Known.Has(node) ? kept : 0.0, m_MayForgetNames ? kept : 0.0);
    out.generation = m_Nodes.GenerationOf(entry.Id);
    return out;
}

void Dispatch::Lookup(const Request &request, Reply &reply)
{
    reply.SendStruct(
        Found(request.By, m_Files.Lookup(request.By, request.Header.nodeid, request.TextAt(0))));
}

void Dispatch::MakeDirectory(const Request &request, Reply &reply)
{
    const auto &in = request.As<fuse_mkdir_in>();
    const std::string name = request.TextAt(sizeof(in));
    reply.SendStruct(
        Found(request.By, m_Files.MakeDirectory(request.By, request.Header.nodeid, name, in.mode)));
}

void Dispatch::MakeNode(const Request &request, Reply &reply)
{
    const auto &in = request.As<fuse_mknod_in>();
    const std::string name = request.TextAt(sizeof(in));
    reply.SendStruct(Found(
        request.By, m_Files.MakeNode(request.By, request.Header.nodeid, name, in.mode, in.rdev)));
}

void Dispatch::Symlink(const Request &request, Reply &reply)
{
    const std::string name = request.TextAt(0);
    const std::string target = request.TextAt(name.size() + 1, 4095);
    reply.SendStruct(
        Found(request.By, m_Files.MakeSymlink(request.By, request.Header.nodeid, name, target)));
}

void Dispatch::Link(const Request &request, Reply &reply)
{
    const auto &in = request.As<fuse_link_in>();
    const std::string name = request.TextAt(sizeof(in));
    reply.SendStruct(
        Found(request.By, m_Files.Link(request.By, in.oldnodeid, request.Header.nodeid, name)));
}

void Dispatch::ReadLink(const Request &request, Reply &reply)
{
    reply.Send(m_Files.ReadLink(request.By, request.Header.nodeid));
}

void Dispatch::Unlink(const Request &request, Reply &reply)
{
    m_Files.Unlink(request.By, request.Header.nodeid, request.TextAt(0));
    reply.Send();
}

void Dispatch::RemoveDirectory(const Request &request, Reply &reply)
{
    m_Files.RemoveDirectory(request.By, request.Header.nodeid, request.TextAt(0));
    reply.Send();
}

void Dispatch::Rename(const Request &request, Reply &reply)
{
    const auto &in = request.As<fuse_rename_in>();
    const std::string from = request.TextAt(sizeof(in));
    const std::string to = request.TextAt(sizeof(in) + from.size() + 1);
    m_Files.Rename(request.By, request.Header.nodeid, from, in.newdir, to, 0);
    reply.Send();
}

void Dispatch::RenameWithFlags(const Request &request, Reply &reply)
{
    const auto &in = request.As<fuse_rename2_in>();
    const std::string from = request.TextAt(sizeof(in));
    const std::string to = request.TextAt(sizeof(in) + from.size() + 1);
    m_Files.Rename(request.By, request.Header.nodeid, from, in.newdir, to, in.flags);
    reply.Send();
}

void Dispatch::Forget(const Request &request, Reply &)
{
    const uint64_t lookups = request.As<fuse_forget_in>().nlookup;
    m_Known.Forget(request.Header.nodeid, lookups);
    m_Files.Forget(request.Header.nodeid);
}

void Dispatch::ForgetMany(const Request &request, Reply &)
{
    const auto &in = request.As<fuse_batch_forget_in>();
    const std::string_view rest = request.Body().substr(sizeof(in));
    const auto *one = reinterpret_cast<const fuse_forget_one *>(rest.data());
    for (size_t i = 0; i < in.count && (i + 1) * sizeof(*one) <= rest.size(); ++i)
    {
        m_Known.Forget(one[i].nodeid, one[i].nlookup);
        m_Files.Forget(one[i].nodeid);
    }
}

} // end namespace bbflow
