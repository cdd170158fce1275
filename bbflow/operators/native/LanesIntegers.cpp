#include "LanesTemplate.h"

namespace bbflow
{

BBFLOW_DEFINE_LANES(int8_t)
BBFLOW_DEFINE_LANES(int16_t)
BBFLOW_DEFINE_LANES(int32_t)
BBFLOW_DEFINE_LANES(int64_t)
BBFLOW_DEFINE_LANES(uint8_t)
BBFLOW_DEFINE_LANES(uint16_t)
BBFLOW_DEFINE_LANES(uint32_t)
BBFLOW_DEFINE_LANES(uint64_t)

} // end namespace bbflow
