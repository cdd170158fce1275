#include "IoOrder.h"

#include <cstring>
#include <string>
#include <type_traits>

namespace bbflow
{

namespace
{

/** How an IO of ADIOS2's core begins, from 2.9 on: the public class is nothing but a pointer to it,
 * and has no way to ask for the language or the order. */
struct CoreIo
{
    void *Adios;
    void *Group[2]; // a std::shared_ptr
    std::string Name;
    std::string Language;
    adios2::ArrayOrdering Order;
};

/** Whether bytes are a short std::string as it lies in memory: its text is in itself. That is seen
 * without following any pointer, which may be none in another ADIOS2. */
bool IsShortText(const std::string &text)
{
    const char *address = nullptr;
    std::memcpy(&address, static_cast<const void *>(&text), sizeof(address));
    const auto *begin = reinterpret_cast<const char *>(&text);
    return address > begin && address < begin + sizeof(text);
}

bool IsLanguage(const std::string &text)
{
    for (const char *known : {"C++", "C", "Fortran", "Python", "Matlab", "R"})
    {
        if (text == known)
        {
            return true;
        }
    }
    return false;
}

} // end empty namespace

std::optional<bool> OrderOf(const adios2::IO &io)
{
    static_assert(sizeof(adios2::IO) == sizeof(void *) && std::is_standard_layout_v<adios2::IO>);
    const CoreIo *core = nullptr;
    std::memcpy(&core, static_cast<const void *>(&io), sizeof(core));
    // Name and language show that they are where they are expected; so is the order behind them.
    const std::string name = io.Name();
    const bool isKnown = IsShortText(core->Language) && IsLanguage(core->Language) &&
                         core->Name.size() == name.size() && core->Name == name;
    const bool isOrder = core->Order == adios2::ArrayOrdering::RowMajor ||
                         core->Order == adios2::ArrayOrdering::ColumnMajor;
    return isKnown && isOrder
               ? std::optional<bool>(core->Order == adios2::ArrayOrdering::ColumnMajor)
               : std::nullopt;
}

} // end namespace bbflow
