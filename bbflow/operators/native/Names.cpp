#include "Many.h"

const char *bbflow_names()
{
    return "count shift first second min max; add min max; mean var std sum min max range; "
           "sketches edges grids; fold_families remap_sum";
}
