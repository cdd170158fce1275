#include "Kinds.h"

namespace bbflow
{

BBFLOW_DEFINE_INTEGER_FOLD(int8_t)
BBFLOW_DEFINE_INTEGER_FOLD(int16_t)
BBFLOW_DEFINE_INTEGER_FOLD(uint8_t)
BBFLOW_DEFINE_INTEGER_FOLD(uint16_t)

} // end namespace bbflow
