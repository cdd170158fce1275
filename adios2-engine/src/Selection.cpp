#include "Selection.h"

#include <algorithm>

namespace bbflow
{

Selection Reversed(Selection selection)
{
    for (std::vector<size_t> *dims :
         {&selection.Start, &selection.Count, &selection.MemoryStart, &selection.MemoryCount})
    {
        std::reverse(dims->begin(), dims->end());
    }
    return selection;
}

} // end namespace bbflow
