#include "Many.h"

const char *bbflow_names()
{
    return "count shift first second min max; mean var std sum min max range; "
           "sketches edges grids; one_fold remap_sum";
}
