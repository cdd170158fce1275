#include "Kinds.h"

namespace bbflow
{

BBFLOW_DEFINE_INTEGER_FOLD(int32_t)
BBFLOW_DEFINE_INTEGER_FOLD(int64_t)
BBFLOW_DEFINE_INTEGER_FOLD(uint32_t)
BBFLOW_DEFINE_INTEGER_FOLD(uint64_t)

} // end namespace bbflow
