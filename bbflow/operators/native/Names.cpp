#include "Merge.h"

const char *bbflow_names()
{
    return "count shift first second min max; add min max; mean var std sum min max range; "
           "merge_many remap_sum";
}
