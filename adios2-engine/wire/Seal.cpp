#include "Seal.h"

namespace bbflow
{

bool AreEqual(const std::string_view a, const std::string_view b)
{
    unsigned difference = a.size() == b.size() ? 0 : 1;
    for (size_t i = 0; i < a.size() && i < b.size(); ++i)
    {
        difference |= static_cast<unsigned char>(a[i] ^ b[i]);
    }
    return difference == 0;
}

} // end namespace bbflow
