#include "Fold.h"

#include <new>

int bbflow_fold(const int type, const BbflowTask *task)
{
    try
    {
        switch (type)
        {
#define dispatch(CODE, T)                                                                          \
    case CODE:                                                                                     \
        bbflow::Fold(*task, T());                                                                  \
        return 0;
            BBFLOW_FOREACH_FOLD_TYPE(dispatch)
#undef dispatch
        }
    }
    catch (const std::bad_alloc &)
    {
        return 1;
    }
    return 2;
}
