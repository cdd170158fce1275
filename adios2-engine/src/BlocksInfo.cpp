#include "BlocksInfo.h"

#include "ValueAs.h"

#include <cstring>

namespace bbflow
{

template <class T>
void BlocksInfo::SetValues(const StoredBlock &block, adios2::MinBlockInfo &info)
{
    if constexpr (std::is_same_v<T, std::string>)
    {
        m_Texts.push_back(block.Single.Text().c_str());
        info.BufferP = &m_Texts.back();
    }
    else
    {
        const bool isSingle = !block.Single.IsNil();
        const Value &smallest = isSingle ? block.Single : block.Min;
        const Value &largest = isSingle ? block.Single : block.Max;
        const T least = smallest.IsNil() ? T{} : ValueAs<T>(smallest);
        const T most = largest.IsNil() ? T{} : ValueAs<T>(largest);
        std::memcpy(static_cast<void *>(&info.MinMax.MinUnion), &least, sizeof(T));
        std::memcpy(static_cast<void *>(&info.MinMax.MaxUnion), &most, sizeof(T));
        if (isSingle)
        {
            m_Singles.emplace_back();
            std::memcpy(m_Singles.back().data(), &least, sizeof(T));
            info.BufferP = m_Singles.back().data();
        }
    }
}

std::unique_ptr<adios2::MinVarInfo> BlocksInfo::Describe(const StoredVariable &variable,
                                                         const size_t step)
{
    const bool isLocalValue = variable.Kind == "LocalValue" && variable.Type != "string";
    const size_t rank =
        variable.IsLocalArray() ? variable.Blocks.at(0).Place.Count.size() : variable.Shape.size();
    // ADIOS2 before 2.10 takes these pointers as if it would write there, which it doesn't.
    const auto changing = [](const size_t *dims) { return const_cast<size_t *>(dims); };
    size_t *shape = variable.IsGlobalArray() ? changing(variable.Shape.data()) : nullptr;
    auto info = std::make_unique<adios2::MinVarInfo>(
        variable.IsSingle() && !isLocalValue ? 0 : static_cast<int>(rank), shape);
    info->Step = step;
    info->WasLocalValue = isLocalValue;
    info->IsValue = variable.IsSingle() && !isLocalValue;
    for (const StoredBlock &block : variable.Blocks)
    {
        adios2::MinBlockInfo described{};
        described.WriterID = static_cast<int>(block.Rank);
        described.BlockID = info->BlocksInfo.size();
        // ADIOS2 takes these two of a local value for numbers, not for pointers.
        described.Start = isLocalValue ? reinterpret_cast<size_t *>(block.Rank)
                                       : changing(block.Place.Start.data());
        described.Count = isLocalValue ? reinterpret_cast<size_t *>(size_t{1})
                                       : changing(block.Place.Count.data());
#define set(T)                                                                                     \
    if (variable.Type == adios2::GetType<T>())                                                     \
    {                                                                                              \
        SetValues<T>(block, described);                                                            \
    }
        ADIOS2_FOREACH_STDTYPE_1ARG(set)
#undef set
        info->BlocksInfo.push_back(described);
    }
    return info;
}

void BlocksInfo::Clear()
{
    m_Singles.clear();
    m_Texts.clear();
}

} // end namespace bbflow
