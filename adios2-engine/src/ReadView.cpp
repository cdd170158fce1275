#include "ReadView.h"

#include <algorithm>
#include <limits>

namespace bbflow
{

ReadView::ReadView(std::vector<std::string> nodes) : m_Nodes(nodes.size())
{
    for (size_t i = 0; i < nodes.size(); ++i)
    {
        m_Nodes[i].Name = std::move(nodes[i]);
    }
}

void ReadView::Update(const size_t node, const Value &reply, std::vector<StepPart> steps)
{
    Node &view = m_Nodes.at(node);
    view.Status = reply.StringAt("status");
    view.Writers = reply.UnsignedAt("writers");
    view.LocalWriters = reply.UnsignedAt("local_writers");
    for (const Value &step : reply.ArrayAt("discarded"))
    {
        view.Discarded.insert(static_cast<int64_t>(step.AsUnsigned()));
    }
    view.Moved.clear();
    if (const Value *moved = reply.Find("moved"))
    {
        for (const Value &move : moved->Items())
        {
            const Value::Array &parts = move.Items(); // rank, from, first
            view.Moved.emplace_back(parts.at(1).Text(), parts.at(2).AsSigned());
        }
    }
    for (StepPart &step : steps)
    {
        view.Known = std::max(view.Known, step.Number);
        view.Steps.insert_or_assign(step.Number, std::move(step));
    }
    view.Last = std::max(view.Last, reply.IntegerAt("last"));
}

void ReadView::Lose(const size_t node)
{
    Node &view = m_Nodes.at(node);
    view.IsLost = true;
    view.Steps.clear();
}

bool ReadView::IsThere() const { return Writers() > 0; }

size_t ReadView::Writers() const
{
    size_t writers = 0;
    for (const Node &node : m_Nodes)
    {
        writers = std::max(writers, node.Writers);
    }
    return writers;
}

Next ReadView::After(int64_t step) const
{
    while (true)
    {
        ++step;
        if (IsComplete(step))
        {
            return {Next::Kind::Ready, step};
        }
        if (!IsDiscarded(step) && (!AreAllOpen() || !Behind(step).empty()))
        {
            return WithoutStep(step);
        }
        // Every node has settled it, and it is not there: it was discarded, or is gone already.
        step = NextToldOf(step) - 1;
    }
}

int64_t ReadView::NextToldOf(const int64_t step) const
{
    constexpr int64_t none = std::numeric_limits<int64_t>::max();
    int64_t next = none;
    for (const Node &node : m_Nodes)
    {
        const auto later = node.Steps.upper_bound(step);
        if (later != node.Steps.end())
        {
            next = std::min(next, later->first);
        }
        else if (node.Last > step)
        {
            next = std::min(next, node.Last + 1);
        }
    }
    return next == none ? step + 1 : next;
}

Next ReadView::WithoutStep(const int64_t step) const
{
    const auto isAny = [](const std::vector<const Node *> &nodes, const char *status)
    {
        return std::any_of(nodes.begin(), nodes.end(),
                           [status](const Node *node) { return node->Status == status; });
    };
    const std::vector<const Node *> behind = Behind(step);
    const bool isLost =
        std::any_of(m_Nodes.begin(), m_Nodes.end(), [](const Node &node) { return node.IsLost; });
    if (isAny(behind, "aborted") || (isLost && !AreAllOpen()))
    {
        return {Next::Kind::Failure, step};
    }
    return {isAny(behind, "closed") ? Next::Kind::End : Next::Kind::Wait, step};
}

bool ReadView::IsComplete(const int64_t step) const
{
    size_t ranks = 0;
    for (const Node &node : m_Nodes)
    {
        const auto part = node.Steps.find(step);
        ranks += part == node.Steps.end() ? 0 : part->second.Ranks;
    }
    return ranks > 0 && ranks >= Writers();
}

bool ReadView::IsDiscarded(const int64_t step) const
{
    return std::any_of(m_Nodes.begin(), m_Nodes.end(),
                       [step](const Node &node) { return node.Discarded.count(step) > 0; });
}

size_t ReadView::ExpectedOn(const Node &node, const int64_t step) const
{
    size_t ranks = node.LocalWriters;
    for (const Node &other : m_Nodes)
    {
        for (const auto &[from, first] : other.Moved)
        {
            ranks -= from == node.Name && first <= step && ranks > 0 ? 1 : 0;
        }
    }
    return ranks;
}

std::vector<const ReadView::Node *> ReadView::Behind(const int64_t step) const
{
    std::vector<const Node *> nodes;
    for (const Node &node : m_Nodes)
    {
        if (!node.IsLost && node.Last < step && ExpectedOn(node, step) > 0)
        {
            nodes.push_back(&node);
        }
    }
    return nodes;
}

bool ReadView::AreAllOpen() const
{
    size_t ranks = 0;
    for (const Node &node : m_Nodes)
    {
        ranks += node.IsLost ? 0 : node.LocalWriters;
    }
    return ranks > 0 && ranks >= Writers();
}

const StepPart *ReadView::Part(const size_t node, const int64_t step) const
{
    const auto &steps = m_Nodes.at(node).Steps;
    const auto part = steps.find(step);
    return part == steps.end() ? nullptr : &part->second;
}

void ReadView::Forget(const int64_t through)
{
    for (Node &node : m_Nodes)
    {
        node.Steps.erase(node.Steps.begin(), node.Steps.upper_bound(through));
        node.Discarded.erase(node.Discarded.begin(), node.Discarded.upper_bound(through));
    }
}

int64_t ReadView::Known(const size_t node) const { return m_Nodes.at(node).Known; }

} // end namespace bbflow
