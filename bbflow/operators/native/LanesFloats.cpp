#include "LanesTemplate.h"

namespace bbflow
{

BBFLOW_DEFINE_LANES(float)
BBFLOW_DEFINE_LANES(double)

} // end namespace bbflow
