#include "Kinds.h"

namespace bbflow
{

BBFLOW_DEFINE_FLOAT_FOLD(float)
BBFLOW_DEFINE_FLOAT_FOLD(double)

} // end namespace bbflow
